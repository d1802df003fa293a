#!/usr/bin/env python3
"""Runs the ONNX files of every kind of model in ONNX Runtime and compares their logits with comera's own.

    COMERA_ONNX_CASES=/tmp/onnx build/release/tests/exchange/exchange_test --gtest_filter='*Onnx*'
    python3 tests/oracle/check_onnx.py /tmp/onnx

The first command writes a folder for each kind: model.onnx, its inputs and the expected logits. Files in 8 bits may
differ by a tenth of the largest logit, all others by 1e-4 of it. Needs onnx, onnxruntime, numpy and safetensors.
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime
from safetensors.numpy import load_file


def difference(folder):
    """The largest difference of logits, as a share of the largest logit."""
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    case = load_file(folder / "case.safetensors")
    given = {one.name: case[one.name].astype(numpy.int64) for one in session.get_inputs()}
    found = session.run(None, given)
    logits = found[0] if len(found) == 1 else numpy.stack(found, axis=-1)  # of beginnings and ends of spans
    worst = largest = 0.0
    for i, row in enumerate(logits):
        expected = case[f"expected.{i}"]
        worst = max(worst, float(numpy.abs(row.flatten()[:expected.size] - expected).max()))
        largest = max(largest, float(numpy.abs(expected).max()))
    return worst / largest


def main():
    folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/model.onnx"))
    bad = 0
    for folder in folders:
        found = difference(folder)
        is_bad = not found < (0.15 if folder.name.endswith("-int8") else 1e-4)
        bad += is_bad
        print(f"{'BAD ' if is_bad else 'good'} {folder.name}: {found:.1e}", flush=True)
    print(f"{len(folders)} files, {bad} bad; onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}")
    sys.exit(1 if bad or not folders else 0)


if __name__ == "__main__":
    main()
