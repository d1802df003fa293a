#!/usr/bin/env python3
"""What a trained model says of texts, by PyTorch or ONNX Runtime: what comera's commands are compared with.

    comera export runs/mine --to mine-hf
    python3 inference.py --model mine-hf --texts sentences.txt --threads 2
    python3 inference.py --model mine-hf --texts sentences.txt --threads 2 --runtime onnx --onnx mine.onnx
    python3 inference.py --model mine-hf --texts pairs.txt --gives classes
    python3 inference.py --model mine-hf --texts masked.txt --gives fillings

Reads one text per line, or two with a tab between, and gives each the mean of its hidden states, as `comera embed`
does, or with --gives the probabilities of its classes (`comera predict`) or the five likeliest pieces for each [MASK]
(`comera fill-mask`). Texts are tokenized by the model's own tokenizer, sorted by length and put into batches of equal
numbers of texts, padded to the longest, which is the quickest way that we know there. A model of tensor trains is
exported as the dense model that it is equal to. --dtype bfloat16 converts a PyTorch model; ONNX Runtime's CPU kernels
have none. The first call with --runtime onnx writes the file --onnx and stops; so neither the export nor PyTorch is in
what is timed.

Prints one line of JSON: seconds of reading the libraries and the model, and of all texts, tokenizing included. Needs
PyTorch, transformers, onnxruntime, and onnxscript for the export.
"""

import argparse
import json
import os
import time

began = time.perf_counter()


def sorted_batches(tokenizer, texts, length, size):
    """Batches of places in `texts`, and their tokens."""
    pairs = [text.split("\t") for text in texts]
    second = [pair[1] for pair in pairs] if len(pairs[0]) == 2 else None
    tokens = tokenizer([pair[0] for pair in pairs], second, truncation=True, max_length=length)
    order = sorted(range(len(texts)), key=lambda i: len(tokens["input_ids"][i]))
    for begin in range(0, len(order), size):
        places = order[begin : begin + size]
        yield places, tokenizer.pad({name: [of[i] for i in places] for name, of in tokens.items()}, return_tensors="np")


def mean(hidden, mask):
    wide = mask[:, :, None]
    return (hidden * wide).sum(1) / wide.sum(1)


def torch_model(folder, dtype, gives, mask_token):
    import torch
    import transformers

    kinds = {"vectors": "", "classes": "ForSequenceClassification", "fillings": "ForMaskedLM"}
    kind = getattr(transformers, "AutoModel" + kinds[gives])
    model = kind.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()

    def fillings(batch):
        # Logits of the masked tokens alone: of all tokens they would take longer than the model.
        hidden = model.base_model(**batch).last_hidden_state
        masked = batch["input_ids"] == mask_token
        top = model.cls(hidden[masked]).float().softmax(-1).topk(5).indices
        return [row.numpy() for row in top.split(masked.sum(1).tolist())]

    def run(batch):
        with torch.inference_mode():
            batch = {name: torch.from_numpy(of) for name, of in batch.items()}
            if gives == "fillings":
                return fillings(batch)
            if gives == "classes":
                return model(**batch).logits.float().softmax(-1).numpy()
            return mean(model(**batch).last_hidden_state.float(), batch["attention_mask"]).numpy()

    return run


def write_onnx(folder, file):
    import torch
    from transformers import AutoModel

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder).eval()

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.full((2, 16), 5, dtype=torch.int64)
    axes = {"ids": {0: "texts", 1: "length"}, "mask": {0: "texts", 1: "length"}, "hidden": {0: "texts", 1: "length"}}
    torch.onnx.export(Hidden(), (ids, torch.ones_like(ids)), file, input_names=["ids", "mask"],
                      output_names=["hidden"], dynamic_axes=axes, dynamo=False)


def onnx_model(file, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(batch):
        ids, mask = batch["input_ids"], batch["attention_mask"]
        (hidden,) = session.run(["hidden"], {"ids": ids, "mask": mask})
        return mean(hidden, mask)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of `comera export`")
    parser.add_argument("--texts", required=True, help="a file with one text per line, or two with a tab between")
    parser.add_argument("--gives", choices=["vectors", "classes", "fillings"], default="vectors")
    parser.add_argument("--first", type=int, help="only so many texts")
    parser.add_argument("--runtime", choices=["torch", "onnx"], default="torch")
    parser.add_argument("--onnx", help="the model's file for ONNX Runtime")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="texts of a batch")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text at most")
    parser.add_argument("--output", help="a file of numpy for what it gives")
    args = parser.parse_args()
    if args.runtime == "onnx" and not args.onnx:
        parser.error("--runtime onnx needs --onnx FILE")
    if args.runtime == "onnx" and args.gives != "vectors":
        parser.error("--runtime onnx gives vectors only")
    os.environ["OMP_NUM_THREADS"] = str(args.threads)

    if args.runtime == "onnx" and not os.path.exists(args.onnx):
        return write_onnx(args.model, args.onnx)
    import numpy
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    if args.runtime == "torch":
        import torch

        torch.set_num_threads(args.threads)
        run = torch_model(args.model, args.dtype, args.gives, tokenizer.mask_token_id)
    else:
        run = onnx_model(args.onnx, args.threads)
    with open(args.texts, encoding="utf-8") as file:
        texts = file.read().splitlines()[: args.first]
    parts = {text.count("\t") + 1 for text in texts}
    if parts not in ({1}, {2}):
        parser.error(f"{args.texts}: all lines must be one text, or all of them two with a tab between")
    if args.runtime == "onnx" and parts == {2}:
        parser.error("--runtime onnx takes no pairs: its model has no segments")
    read = time.perf_counter()
    found = [None] * len(texts)
    for places, batch in sorted_batches(tokenizer, texts, args.length, args.batch):
        for place, one in zip(places, run(batch)):
            found[place] = one
    done = time.perf_counter()
    if args.output:
        numpy.save(args.output, numpy.concatenate(found) if args.gives == "fillings" else numpy.stack(found))
    print(json.dumps({"runtime": args.runtime, "dtype": args.dtype, "threads": args.threads, "gives": args.gives,
                      "texts": len(texts),
                      "load_seconds": round(read - began, 2), "texts_seconds": round(done - read, 3),
                      "texts_per_second": round(len(texts) / (done - read), 1)}))


main()
