#!/usr/bin/env python3
"""Looking up a table of embeddings in PyTorch, dense and as a tensor-train matrix, forward and backward: milliseconds and
memory, beside `comera bench lookup`.

    bench/pytorch/lookup.py [--shard train-00000.h5 | --exponent 1.05] [--tokens 10000 40000] [--threads 2] [--device cuda]

The tensor-train matrix is that of recipes/six_encoder_mnli.toml: rows [16,20,10,10] x columns [4,4,8,6], ranks 32. Ways:
dense (nn.Embedding), with sparse gradients, naive (a chain of products for each token), unique (one for each distinct
token), and pairs (section 4.1 of the paper as we read it: one product for each distinct pair of the first two and of
the last two digits, then one for each distinct token). Each is measured in a process of its own. --shard needs h5py.
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

ROWS, COLUMNS, RANK, HEIGHT = [16, 20, 10, 10], [4, 4, 8, 6], 32, 30522
WAYS = ["dense", "sparse", "naive", "unique", "pairs"]


def ids_of(options, tokens, torch):
    if options.shard:
        import h5py  # pylint: disable=import-outside-toplevel
        with h5py.File(options.shard) as shard:
            return torch.from_numpy(shard[options.dataset][:tokens].astype("int64"))
    weights = torch.arange(1, HEIGHT + 1, dtype=torch.float64) ** -options.exponent
    generator = torch.Generator().manual_seed(1)
    return torch.multinomial(weights, tokens, replacement=True, generator=generator)


def chain(cores, digits, width):
    """Rows of ids with these digits: a chain of small products for each."""
    rows = cores[0][0, digits[0]].reshape(-1, COLUMNS[0], RANK)
    for core, digit in zip(cores[1:], digits[1:]):
        slices = core[:, digit].permute(1, 0, 2, 3)  # of each id (r, n, r')
        rows = rows @ slices.reshape(slices.shape[0], slices.shape[1], -1)
        rows = rows.reshape(rows.shape[0], -1, core.shape[3])
    return rows.reshape(-1, width)


def digits_of(ids, torch):
    digits = []
    for modes in reversed(ROWS):
        digits.insert(0, ids % modes)
        ids = torch.div(ids, modes, rounding_mode="floor")
    return digits


def lookup(way, table, ids, torch):
    if way in ("dense", "sparse"):
        return table(ids)
    width = COLUMNS[0] * COLUMNS[1] * COLUMNS[2] * COLUMNS[3]
    if way == "naive":
        return chain(table, digits_of(ids, torch), width)
    distinct, index = torch.unique(ids, return_inverse=True)
    if way == "unique":
        return chain(table, digits_of(distinct, torch), width)[index]
    right_rows = ROWS[2] * ROWS[3]
    left, left_index = torch.unique(torch.div(distinct, right_rows, rounding_mode="floor"), return_inverse=True)
    right, right_index = torch.unique(distinct % right_rows, return_inverse=True)
    first = table[0][0, torch.div(left, ROWS[1], rounding_mode="floor")]             # (L, n1, r)
    second = table[1][:, left % ROWS[1]].permute(1, 0, 2, 3).flatten(2)              # (L, r, n2 r)
    third = table[2][:, torch.div(right, ROWS[3], rounding_mode="floor")].permute(1, 0, 2, 3)
    fourth = table[3][:, right % ROWS[3], :, 0].permute(1, 0, 2)                     # (R, r, n4)
    halves = (first @ second).reshape(len(left), -1, RANK)                           # (L, n1 n2, r)
    others = (third.flatten(1, 2) @ fourth).reshape(len(right), RANK, -1)            # (R, r, n3 n4)
    return (halves[left_index] @ others[right_index]).reshape(-1, width)[index]


def measure(options):
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    cuda = options.device.startswith("cuda")
    width = COLUMNS[0] * COLUMNS[1] * COLUMNS[2] * COLUMNS[3]
    ids = ids_of(options, options.one_tokens, torch).to(options.device)
    if options.one in ("dense", "sparse"):
        table = torch.nn.Embedding(HEIGHT, width, sparse=options.one == "sparse").to(options.device)
        parameters = list(table.parameters())
    else:
        ranks = [1, RANK, RANK, RANK, 1]
        parameters = table = [
            torch.nn.Parameter(0.1 * torch.randn(ranks[k], ROWS[k], COLUMNS[k], ranks[k + 1], device=options.device))
            for k in range(4)]
    gradient = torch.randn(len(ids), width, device=options.device)

    def peak():
        return torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before, times = peak(), []
    for _ in range(options.repeats + 1):
        for parameter in parameters:
            parameter.grad = None
        moments = []
        for work in (lambda: lookup(options.one, table, ids, torch), lambda: rows.backward(gradient)):
            start = time.perf_counter()
            made = work()
            if cuda:
                torch.cuda.synchronize()
            moments.append(1e3 * (time.perf_counter() - start))
            rows = made
        times.append(moments)
        del rows, made
    forward, backward = (statistics.median(each) for each in zip(*times[1:]))
    print(json.dumps({"torch": torch.__version__, "way": options.one, "tokens": len(ids),
                      "distinct": len(torch.unique(ids)), "forward_ms": round(forward, 2),
                      "backward_ms": round(backward, 2), "mib": round((peak() - before) / 2**20, 1)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shard")
    parser.add_argument("--dataset", default="tokens", help="of the shard: ids one after another")
    parser.add_argument("--exponent", type=float, default=1.05, help="of Zipf's law, by which ids are drawn")
    parser.add_argument("--tokens", type=int, nargs="+", default=[10000, 20000, 40000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--one-tokens", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return measure(options)
    for tokens in options.tokens:
        for way in options.way or WAYS:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", way, "--one-tokens", str(tokens)], check=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
