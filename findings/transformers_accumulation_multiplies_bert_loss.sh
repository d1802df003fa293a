#!/usr/bin/env bash
# transformers 5.24.0 with accelerate 1.15.0 and torch 2.15.0: Trainer with gradient_accumulation_steps = 4 gives
# BertForMaskedLM four times the loss and four times the gradient of the same 8 sequences in one batch. forward() takes
# **kwargs, so Trainer believes that the model divides by num_items_in_batch and leaves its own division out; the model
# ignores the number. A learning rate that was found without accumulation is four times too large with it (Adam hides
# most of that, clipping does not). Expected by most: the same loss and gradient. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install torch==2.15.0 transformers==5.24.0 accelerate==1.15.0
cat > "$work/run.py" <<'PYTHON'
import sys

import torch
import transformers
from torch.utils.data import Dataset, SequentialSampler

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)


class Sequences(Dataset):
    def __init__(self):
        self.ids = torch.randint(10, 60, (8, 12), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.ids[i].clone()
        labels[::2] = -100
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(12, dtype=torch.long), "labels": labels}


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return SequentialSampler(self.train_dataset)


def first_step(batch, accumulation):
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    settings = transformers.TrainingArguments(
        output_dir=sys.argv[1], per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation, max_steps=1,
        logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, learning_rate=0.0, max_grad_norm=1e9,
        disable_tqdm=True)
    trainer = InOrder(model=model, args=settings, train_dataset=Sequences())
    trainer.train()
    logged = trainer.state.log_history[0]
    return float(logged["loss"]), float(logged["grad_norm"])


print("transformers", transformers.__version__)
whole, parts = first_step(8, 1), first_step(2, 4)
print(f"batch 8, accumulation 1: loss {whole[0]:.3f}, gradient norm {whole[1]:.3f}")
print(f"batch 2, accumulation 4: loss {parts[0]:.3f}, gradient norm {parts[1]:.3f}")
assert abs(parts[0] / whole[0] - 4) < 0.01 and abs(parts[1] / whole[1] - 4) < 0.01, (whole, parts)
PYTHON
HF_HUB_OFFLINE=1 "$work/venv/bin/python" "$work/run.py" "$work/out" 2> /dev/null
