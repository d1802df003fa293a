#!/usr/bin/env bash
# transformers 5.24 no longer lets the mask of RoBERTa take the space before it, where the tokenizer comes from
# vocab.json and merges.txt: "a <mask> b" becomes a, a space by itself, <mask>, b. In 4.57.3 it is a, <mask>, b, which is
# what such models have learned from. The same goes for BigBird's [MASK] from spiece.model. What 5.24 saves then says so
# in tokenizer.json too. A tokenizer.json that 4.57.3 has saved is right in both.
# Expected by most: the same files give the same tokens. Fails if that has changed.
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
space = "\u0120"
roberta, bigbird = work / f"roberta-{version}", work / f"bigbird-{version}"
for folder, kind in ((roberta, "roberta"), (bigbird, "big_bird")):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
pieces = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", space, space + "a", space + "b", "<mask>"]
(roberta / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
(roberta / "merges.txt").write_text(f"#version: 0.2\n{space} a\n{space} b\n")
(work / "text.txt").write_text("a b a b\n" * 20)
sentencepiece.SentencePieceTrainer.Train(
    input=str(work / "text.txt"), model_prefix=str(bigbird / "spiece"), vocab_size=14, hard_vocab_limit=False,
    pad_id=0, eos_id=1, bos_id=2, unk_id=3, control_symbols=["[CLS]", "[SEP]"], user_defined_symbols=["[MASK]"],
    minloglevel=2)


def pieces_of(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(f"a {tokenizer.mask_token} b")["input_ids"])
    print(f"transformers {version}, {folder.name}: {tokens}")
    at = tokens.index(tokenizer.mask_token)
    return tokenizer, tokens[at - 1] in (space, "\u2581")


apart = {}
for folder in (roberta, bigbird):
    tokenizer, apart[folder.name.split("-")[0]] = pieces_of(folder)
    tokenizer.save_pretrained(work / f"saved-{folder.name}")
    (work / f"saved-{folder.name}" / "config.json").write_text((folder / "config.json").read_text())
assert apart == dict.fromkeys(("roberta", "bigbird"), version.startswith("5."))
for saved in sorted(work.glob("saved-*")):
    assert pieces_of(saved)[1] == saved.name.endswith("-5.24.0"), saved
PYTHON
for version in 4.57.3 5.24.0; do "$work/$version/bin/python" "$work/show.py" "$work"; done
