#!/usr/bin/env bash
# A model that sentence-transformers 6.2.0 has saved cannot be loaded by 5.1.2, which warns that there "might" be
# errors, and ends with ModuleNotFoundError: modules.json names each class by where 6.2.0 has it, in modules that 5.1.2
# lacks. Other names there are not enough: the modules' own files have keys that 5.1.2 takes for arguments (TypeError).
# With names and keys as 5.1.2 writes them both versions load the same weights, and give the same vectors.
# Expected by most: a folder of BERT, mean pooling and a dense layer, all of which both versions have, is read by both.
# Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install torch==2.15.0 transformers==5.24.0 sentence-transformers==6.2.0
"$work/venv/bin/pip" -q install --target "$work/older" --no-deps sentence-transformers==5.1.2 transformers==4.57.1 \
  huggingface-hub==0.36.2 tokenizers==0.22.2 pillow==12.0.0 \
  requests==2.32.5 urllib3==2.5.0 charset-normalizer==3.4.4 certifi==2025.11.12 idna==3.11
cat > "$work/save.py" <<'PYTHON'
import json
import pathlib
import shutil
import sys

import torch
import transformers
from sentence_transformers import SentenceTransformer, models

work = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
(work / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]) + "\n")
encoder = work / "encoder"
transformers.BertModel(transformers.BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                                               intermediate_size=8)).save_pretrained(encoder)
transformers.BertTokenizer(str(work / "vocab.txt")).save_pretrained(encoder)
modules = [models.Transformer(str(encoder)), models.Pooling(8, "mean"), models.Dense(8, 4)]
SentenceTransformer(modules=modules).save(str(work / "saved"))
shutil.copytree(work / "saved", work / "renamed")
names = json.loads((work / "renamed/modules.json").read_text())
print("as saved:", [module["type"] for module in names])
for module in names:
    module["type"] = "sentence_transformers.models." + module["type"].rsplit(".", 1)[1]
(work / "renamed/modules.json").write_text(json.dumps(names))
shutil.copytree(work / "renamed", work / "rewritten")
(work / "rewritten/sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64, "do_lower_case": False}))
(work / "rewritten/1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 8,
                                                                  "pooling_mode_mean_tokens": True}))
dense = work / "rewritten/2_Dense/config.json"
kept = ("in_features", "out_features", "bias", "activation_function")
dense.write_text(json.dumps({key: value for key, value in json.loads(dense.read_text()).items() if key in kept}))
PYTHON
cat > "$work/load.py" <<'PYTHON'
import pathlib
import sys

import numpy
import sentence_transformers
from sentence_transformers import SentenceTransformer

work = pathlib.Path(sys.argv[1])
version = sentence_transformers.__version__
vectors = {}
for name in ("saved", "renamed", "rewritten"):
    try:
        vectors[name] = SentenceTransformer(str(work / name), device="cpu").encode(["a b c"])
        print(f"sentence-transformers {version}, {name}: loaded, {vectors[name].shape[1]} numbers")
    except (ModuleNotFoundError, TypeError) as error:
        print(f"sentence-transformers {version}, {name}: {type(error).__name__}: {error}")
if version == "6.2.0":
    numpy.save(work / "6.2.0.npy", vectors["saved"])
    assert all(numpy.array_equal(vectors["saved"], vectors[name]) for name in ("renamed", "rewritten"))
else:
    assert version == "5.1.2" and list(vectors) == ["rewritten"]
    assert numpy.allclose(numpy.load(work / "6.2.0.npy"), vectors["rewritten"], atol=1e-6)
PYTHON
"$work/venv/bin/python" "$work/save.py" "$work"
"$work/venv/bin/python" "$work/load.py" "$work"
PYTHONPATH="$work/older" "$work/venv/bin/python" "$work/load.py" "$work"
