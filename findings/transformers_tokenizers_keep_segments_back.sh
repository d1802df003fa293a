#!/usr/bin/env bash
# transformers 5.24's tokenizers of ALBERT, XLNet and Funnel give no token_type_ids unless they are asked for, so that a
# model gets none and takes both texts of a pair for segment 0 (and the [CLS] of XLNet and Funnel, whose segment is 2).
# In 4.57.3 the same call gives them: 0 and 1 for ALBERT. return_token_type_ids=True brings them back in 5.24.
# Expected by most: tokenizer(first, second) has what its model reads. Fails if that has changed.
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
work = pathlib.Path(sys.argv[1]) / f"models-{transformers.__version__}"
work.mkdir()
(work / "text.txt").write_text("a b a b\n" * 20)
for kind, segments_of_pairs in (("albert", {0, 1}), ("xlnet", {0, 1, 2}), ("funnel", {0, 1, 2})):
    folder = work / kind
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    if kind == "funnel":
        (folder / "vocab.txt").write_text("\n".join(["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>",
                                                     "a", "b"]) + "\n")
    else:
        special = dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]"],
                       user_defined_symbols=["[MASK]"])
        if kind == "xlnet":
            special = dict(unk_id=0, bos_id=1, eos_id=2, control_symbols=["<cls>", "<sep>", "<pad>"],
                           user_defined_symbols=["<mask>"])
        sentencepiece.SentencePieceTrainer.Train(input=str(work / "text.txt"), model_prefix=str(folder / "spiece"),
                                                 vocab_size=14, hard_vocab_limit=False, minloglevel=2, **special)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pair = tokenizer("a", "b")
    print(f"transformers {transformers.__version__}, {kind}: {tokenizer.convert_ids_to_tokens(pair['input_ids'])}, "
          f"segments {pair.get('token_type_ids')}")
    segments = tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]
    assert set(segments) == segments_of_pairs
    assert pair.get("token_type_ids") == (segments if transformers.__version__.startswith("4.") else None)
PYTHON
for version in 4.57.3 5.24.0; do "$work/$version/bin/python" "$work/show.py" "$work"; done
