#!/usr/bin/env bash
# transformers 5.24 trains the sinusoidal positions of DistilBERT (sinusoidal_pos_embds=True), XLM and FlauBERT
# (sinusoidal_embeddings=True): the table requires gradients, and a step of SGD over model.parameters() moves it. In
# 4.57.3 the same program leaves it as it is. RoFormer's table is frozen in both.
# Expected by most: positions by a formula stay what the formula says, in every version. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install torch==2.15.0 transformers==5.24.0 requests
"$work/venv/bin/pip" -q install --target "$work/older" --no-deps \
  transformers==4.57.3 tokenizers==0.22.1 huggingface-hub==0.36.0
cat > "$work/step.py" <<'PYTHON'
import inspect
import logging
import sys

import torch
import transformers
from transformers import (DistilBertConfig, DistilBertForMaskedLM, FlaubertConfig, FlaubertModel, RoFormerConfig,
                          RoFormerForMaskedLM, XLMConfig, XLMModel)

logging.disable()
sizes = dict(vocab_size=40, max_position_embeddings=16)
of_xlm = dict(emb_dim=8, n_layers=1, n_heads=2, sinusoidal_embeddings=True, **sizes)
torch.manual_seed(1)
distilbert = DistilBertForMaskedLM(
    DistilBertConfig(dim=8, n_layers=1, n_heads=2, hidden_dim=12, sinusoidal_pos_embds=True, **sizes))
xlm, flaubert = XLMModel(XLMConfig(**of_xlm)), FlaubertModel(FlaubertConfig(**of_xlm))
roformer = RoFormerForMaskedLM(
    RoFormerConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, **sizes))
tables = {"DistilBERT": (distilbert, distilbert.distilbert.embeddings.position_embeddings.weight),
          "XLM": (xlm, xlm.position_embeddings.weight),
          "FlauBERT": (flaubert, flaubert.position_embeddings.weight),
          "RoFormer": (roformer, roformer.roformer.encoder.embed_positions.weight)}
ids = torch.arange(3, 19)[None]
moved = {}
for name, (model, table) in tables.items():
    before = table.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if "labels" in inspect.signature(model.forward).parameters:
        loss = model(input_ids=ids, labels=ids).loss
    else:
        loss = model(input_ids=ids)[0][..., 0].square().sum()
    loss.backward()
    optimizer.step()
    moved[name] = bool((table.detach() != before).any())
    print("transformers %s, %s: requires_grad %s, moved by a step: %s" %
          (transformers.__version__, name, table.requires_grad, moved[name]))
trained = ["DistilBERT", "XLM", "FlauBERT"] if transformers.__version__.startswith("5.") else []
sys.exit(0 if [name for name in moved if moved[name]] == trained else 1)
PYTHON
"$work/venv/bin/python" "$work/step.py"
PYTHONPATH="$work/older" "$work/venv/bin/python" "$work/step.py"
