#!/usr/bin/env bash
# transformers 5.24's tokenizers of RemBERT and FNet, made from the SentencePiece model alone, put no [CLS] before and no
# [SEP] behind a text, nor between two. In 4.57.3 the same file gives both. tokenizer.json as 4.57.3 has saved it keeps
# them in 5.24; what 5.24 saves for FNet lacks them too, while for RemBERT it has them when it is read again.
# Expected by most: the same file gives the same tokens, and saving changes none. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 4.57.3 5.24.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" -q install "transformers==$version" sentencepiece==0.2.1 protobuf
done
cat > "$work/show.py" <<'PYTHON'
import json
import logging
import pathlib
import sys

import sentencepiece
import transformers

logging.disable()
work = pathlib.Path(sys.argv[1])
version = transformers.__version__
(work / "text.txt").write_text("a b a b\n" * 20)


def adds(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("a", "b")["input_ids"])
    print(f"transformers {version}, {folder.name}: {tokens}")
    return tokenizer, tokens.count("[CLS]") == 1 and tokens.count("[SEP]") == 2


for kind, file in (("rembert", "sentencepiece"), ("fnet", "spiece")):
    folder, saved = work / f"{kind}-{version}", work / f"{kind}, saved by {version}"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    sentencepiece.SentencePieceTrainer.Train(
        input=str(work / "text.txt"), model_prefix=str(folder / file), vocab_size=14, hard_vocab_limit=False,
        pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]"],
        user_defined_symbols=["[MASK]"], minloglevel=2)
    tokenizer, added = adds(folder)
    assert added == (version == "4.57.3")
    tokenizer.save_pretrained(saved)
    (saved / "config.json").write_text((folder / "config.json").read_text())
    assert adds(work / f"{kind}, saved by 4.57.3")[1]
    if version == "5.24.0":
        assert adds(saved)[1] == (kind == "rembert")
PYTHON
for version in 4.57.3 5.24.0; do "$work/$version/bin/python" "$work/show.py" "$work"; done
