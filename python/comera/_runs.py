"""Training in a process of its own, observed from Python."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from . import _comera
from ._program import PROGRAM

Paths = str | os.PathLike | Sequence[str | os.PathLike]
OnLog = Callable[[dict[str, Any]], None]


class Run:
    """A finished or stopped run.

    path: its folder, which load(), resume() and the commands take.
    metrics: the lines of its metrics.jsonl, as dictionaries.
    """

    def __init__(self, path: pathlib.Path, metrics: list[dict[str, Any]]):
        self.path = path
        self.metrics = metrics

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {len(self.metrics)} lines of metrics)"


def command(*arguments: str | os.PathLike) -> str:
    """Runs a command of the program, for instance command("export", "runs/first", "--to", "exported"), and returns
    what it prints. Raises Error with its message if it fails."""
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise _error(done.returncode, done.stderr)
    return done.stdout


def _error(code: int, messages: str) -> Exception:
    lines = [line for line in messages.splitlines() if line.strip()]
    last = lines[-1] if lines else f"comera ended with {code}"
    return (_comera.UsageError if code == 2 else _comera.Error)(last.removeprefix("comera: error: "))


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)  # numbers, truth values and strings are written alike


def _paths(option: str, given: Paths | None) -> list[str]:
    if given is None:
        return []
    paths = [given] if isinstance(given, (str, os.PathLike)) else given
    return [option, *map(str, paths)] if paths else []


class _Metrics:
    """The lines that a run has added to its metrics.jsonl."""

    def __init__(self, file: pathlib.Path, on_log: OnLog | None):
        self.file, self.on_log = file, on_log
        self.at = file.stat().st_size if file.exists() else 0
        self.lines: list[dict[str, Any]] = []

    def read(self) -> None:
        if not self.file.exists():
            return
        with open(self.file, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            self.at = min(self.at, size)  # a resumed run has cut off lines that it writes again
            stream.seek(self.at)
            whole = stream.read().rpartition(b"\n")[0]
        self.at += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            self.lines.append(json.loads(line))
            if self.on_log is not None:
                self.on_log(self.lines[-1])


def _train(arguments: list[str], output: str | os.PathLike, on_log: OnLog | None, quiet: bool) -> Run:
    run = pathlib.Path(output)
    metrics = _Metrics(run / "metrics.jsonl", on_log)
    with tempfile.TemporaryFile("w+") as messages:
        shown = messages if quiet else None
        process = subprocess.Popen([str(PROGRAM), *arguments], stdout=subprocess.DEVNULL if quiet else None, stderr=shown,
                                   start_new_session=True)  # Ctrl-C reaches it through us, once
        try:
            while process.poll() is None:
                metrics.read()
                time.sleep(0.05)
            metrics.read()
        except BaseException:
            process.send_signal(signal.SIGINT)  # it saves a checkpoint
            process.wait()
            raise
        if process.returncode:
            messages.seek(0)
            raise _error(process.returncode, messages.read())
    return Run(run, metrics.lines)


def _settings(settings: Mapping[str, Any] | None) -> Iterable[str]:
    for key, value in (settings or {}).items():
        yield "--set"
        yield f"{key}={_toml(value)}"


def pretrain(recipe: str | os.PathLike, *, output: str | os.PathLike, input: Paths | None = None,
             data: Paths | None = None, tokenizer: str | os.PathLike | None = None,
             start_from: str | os.PathLike | None = None, hours: float | None = None, resume: str = "never",
             settings: Mapping[str, Any] | None = None, on_log: OnLog | None = None, quiet: bool = True) -> Run:
    """Pretrains by a recipe, a file or a built-in one such as "quickstart": `comera pretrain`.

    input: files or folders to learn from; or data: folders of shards, with their tokenizer.
    settings: keys of the recipe, {"phase.0.steps": 100}.
    on_log: called with each line of metrics. An exception from it, and Ctrl-C, stop the run with a checkpoint.
    resume: "never", "auto" or "always".
    quiet: keeps the program's messages; otherwise they go to standard error.
    """
    arguments = ["pretrain", str(recipe), "--output", str(output), "--resume", resume]
    arguments += _paths("--input", input) + _paths("--data", data) + _paths("--tokenizer", tokenizer)
    arguments += _paths("--from", start_from) + ([] if hours is None else ["--hours", str(hours)])
    return _train([*arguments, *_settings(settings)], output, on_log, quiet)


def finetune(*, output: str | os.PathLike, start_from: str | os.PathLike | None = None,
             input: str | os.PathLike | None = None, validation: str | os.PathLike | None = None,
             text: Sequence[str] = (), label: Sequence[str] | str = (), recipe: str | os.PathLike | None = None,
             resume: str = "never", settings: Mapping[str, Any] | None = None, on_log: OnLog | None = None,
             quiet: bool = True) -> Run:
    """Fine-tunes a model (start_from) on a table (input): `comera finetune`. See pretrain() for the rest."""
    arguments = ["finetune", *([] if recipe is None else [str(recipe)]), "--output", str(output), "--resume", resume]
    arguments += _paths("--from", start_from) + _paths("--input", input) + _paths("--validation", validation)
    for option, columns in (("--text", text), ("--label", label)):
        if columns:
            arguments += [option, columns if isinstance(columns, str) else ",".join(columns)]
    return _train([*arguments, *_settings(settings)], output, on_log, quiet)


def resume(run: str | os.PathLike, *, settings: Mapping[str, Any] | None = None, on_log: OnLog | None = None,
           quiet: bool = True) -> Run:
    """Continues a stopped run: `comera resume`."""
    return _train(["resume", str(run), *_settings(settings)], run, on_log, quiet)
