#!/usr/bin/env bash
# transformers 5.24.0 with tokenizers 0.23.3: of one folder, tokenizers gives "The" another id than AutoTokenizer does.
# With the class BertTokenizer in tokenizer_config.json, only pieces and added tokens are taken from tokenizer.json; the
# normalizer that was trained and saved there (here: case is kept) is made anew from tokenizer_config.json, which does
# not speak of case. With the class PreTrainedTokenizerFast the file counts. Nothing is said. Expected by most: what
# tokenizer.json says. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install transformers==5.24.0 tokenizers==0.23.3
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - "$work" <<'PYTHON'
import json
import pathlib
import sys

import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

folder = pathlib.Path(sys.argv[1]) / "model"
folder.mkdir()
pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "the"]
tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.save(str(folder / "tokenizer.json"))
(folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
found = {"tokenizers": Tokenizer.from_file(str(folder / "tokenizer.json")).encode("The").ids}
for name in ("BertTokenizer", "PreTrainedTokenizerFast"):
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    found[name] = loaded("The", add_special_tokens=False)["input_ids"]
print("transformers", transformers.__version__)
for name, ids in found.items():
    print(f"{name:24} {ids}")
assert found == {"tokenizers": [5], "BertTokenizer": [6], "PreTrainedTokenizerFast": [5]}, found
PYTHON
