#!/usr/bin/env bash
# transformers 5.24 sorts the distances of MPNet's relative attention bias into 32 buckets, whatever
# relative_attention_num_buckets of its configuration says: that number only sizes the table. So with 64 half of the
# table is never read, and no distance changes its bucket; with 16 the forward pass raises an IndexError.
# Expected by most: as many buckets as the configuration has, as in T5. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install torch==2.15.0 transformers==5.24.0
"$work/venv/bin/python" - <<'PYTHON'
import torch
from transformers import MPNetConfig, MPNetModel

sizes = dict(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12)
ids = torch.arange(3, 35).repeat(1, 12)[:, :300]


def model_of(buckets):
    torch.manual_seed(1)
    return MPNetModel(MPNetConfig(relative_attention_num_buckets=buckets, **sizes)).eval()


model = model_of(64)
model(input_ids=ids).last_hidden_state.square().sum().backward()
read = model.encoder.relative_attention_bias.weight.grad.abs().sum(1).nonzero().flatten()
print("64 buckets, 300 tokens: the table has %d rows, and those that are read are %d to %d" %
      (len(model.encoder.relative_attention_bias.weight), read.min(), read.max()))
assert read.max() == 31

try:
    model_of(16)(input_ids=ids)
    raise SystemExit("16 buckets: no error")
except IndexError as error:
    print("16 buckets: IndexError:", error)
PYTHON
