#!/usr/bin/env bash
# transformers 5.24 joins two texts for DeBERTa (the first version, with vocab.json and merges.txt) as RoBERTa does:
# [CLS] a [SEP] [SEP] b [SEP], all in segment 0. In 4.57.3 they are [CLS] a [SEP] b [SEP] with segments 0 and 1, which is
# what such models have learned. A tokenizer.json that 4.57.3 has saved does not help: 5.24 joins them anew.
# Expected by most: the same files give the same tokens. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 4.57.3 5.24.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" -q install "transformers==$version"
done
mkdir "$work/deberta"
cat > "$work/show.py" <<'PYTHON'
import json
import logging
import pathlib
import sys

import transformers

logging.disable()
work = pathlib.Path(sys.argv[1])
version = transformers.__version__
folder, saved = work / "deberta", work / "saved by 4.57.3"
pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "b", "\u0120", "[MASK]"]
(folder / "config.json").write_text(json.dumps({"model_type": "deberta"}))
(folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
(folder / "merges.txt").write_text("#version: 0.2\n")
if version == "4.57.3":
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(saved)
    (saved / "config.json").write_text((folder / "config.json").read_text())
for place in (folder, saved):
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    pair = tokenizer("a", "b")
    tokens = tokenizer.convert_ids_to_tokens(pair["input_ids"])
    print(f"transformers {version}, {place.name}: {tokens}, segments {pair['token_type_ids']}")
    if version == "4.57.3":
        assert tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"] and pair["token_type_ids"] == [0, 0, 0, 1, 1]
    else:
        assert tokens == ["[CLS]", "a", "[SEP]", "[SEP]", "b", "[SEP]"] and not any(pair["token_type_ids"])
PYTHON
for version in 4.57.3 5.24.0; do "$work/$version/bin/python" "$work/show.py" "$work"; done
