#!/usr/bin/env python3
"""Reads the event files of `comera report RUN --tensorboard DIR` with TensorBoard's own reader, and compares every
scalar with the run's metrics.jsonl.

    check_tensorboard.py DIR/NAME RUN
"""
import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def numbers(line, before=""):
    for key, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{before}{key}/")
        elif isinstance(value, (int, float)) and key != "step":
            yield before + key, value


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
    events.Reload()
    expected = {}
    for text in (Path(sys.argv[2]) / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        for tag, value in numbers(line):
            expected.setdefault(tag, []).append((line["step"], value))
    tags = set(events.Tags()["scalars"])
    assert tags == set(expected), tags ^ set(expected)
    compared = 0
    for tag, points in expected.items():
        read = [(event.step, event.value) for event in events.Scalars(tag)]
        assert len(read) == len(points), (tag, len(read), len(points))
        for (step, value), (other, number) in zip(read, points):
            assert step == other and abs(value - number) <= 1e-6 * max(abs(number), 1), (tag, step, value, number)
            compared += 1
    print(f"{len(tags)} tags, {compared} scalars agree")


if __name__ == "__main__":
    main()
