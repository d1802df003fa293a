"""comera: encoders with tensor-compressed weights, from numpy.

    import comera
    comera.pretrain("quickstart", input="src", output="runs/first", on_log=print)
    model = comera.load("runs/first")
    model.fill_mask("def __init__([MASK], name):")
    vectors = model.embed(["open a file", "close a socket"], normalize=True)

The command `comera` is the program itself; command() calls it from Python.
"""
from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Sequence, overload

import numpy as np

from . import _comera
from ._comera import Error, Shards, UsageError
from ._comera import __version__ as __version__
from ._runs import Run, command, finetune, pretrain, resume

__all__ = ["Error", "Model", "Predictions", "Run", "Shards", "UsageError", "command", "finetune", "load", "pretrain",
           "resume", "shards"]

Text = str | tuple[str, str]  # one text, or a pair
Guess = tuple[str, float]  # a piece, and its probability


@dataclass(frozen=True)
class Predictions:
    """What a fine-tuned model says of texts; one entry for each text.

    labels: the most probable class, or of several labels those above one half; none for scores.
    probabilities: (texts, classes) float64, or None for scores.
    scores: (texts,) float64, or None for classes and labels.
    """

    labels: list[str] | list[list[str]] | None
    probabilities: np.ndarray | None
    scores: np.ndarray | None


def _texts(texts: Sequence[Text]) -> list[list[str]]:
    if isinstance(texts, str):
        raise TypeError("give a list of texts, not one text")
    return [[one] if isinstance(one, str) else list(one) for one in texts]


class Model:
    """A trained model with its tokenizer: load() makes it."""

    def __init__(self, model: _comera.Model):
        self._model = model

    def __repr__(self) -> str:
        return f"Model({self.path!r}, {self.head}, {self.parameters:,} parameters)"

    @property
    def path(self) -> str:
        """The checkpoint that was read."""
        return self._model.path

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """The recipe that it was trained by, with every key."""
        return tomllib.loads(self._model.recipe)

    @property
    def head(self) -> str:
        """"mlm" if it is pretrained; else the kind of its task: "classification", "regression", "multi_label",
        "token_classification", "question_answering" or "contrastive"."""
        return self.recipe["model"]["head"]

    @property
    def labels(self) -> list[str]:
        """The names of its classes or labels, in the order of the outputs."""
        return self._model.labels

    @property
    def hidden(self) -> int:
        """The width of its vectors."""
        return self._model.hidden

    @property
    def vocabulary(self) -> int:
        """The number of its tokenizer's pieces."""
        return self._model.vocabulary

    @property
    def parameters(self) -> int:
        """The number of its parameters."""
        return self._model.parameters

    @property
    def length(self) -> int:
        """The most tokens of a sequence, [CLS] and [SEP] included; longer texts are cut."""
        return self._model.length

    def tokenize(self, text: str) -> np.ndarray:
        """The ids of a text, without special pieces: int32 (tokens,)."""
        return self._model.encode(text)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of ids. Special pieces are nothing."""
        return self._model.decode([int(one) for one in ids])

    def piece(self, id: int) -> str:
        """The piece with this id."""
        return self._model.piece(id)

    def embed(self, texts: Sequence[Text], *, pooling: str | None = None, normalize: bool = False) -> np.ndarray:
        """Vectors of texts, or of pairs in one sequence: float32 (texts, hidden).

        pooling: "mean" over all tokens, or "first", the vector of [CLS]; None: as a model for vectors was trained,
        or as sentence-transformers pools an imported one, else "mean".
        normalize: to a length of 1, so that products are cosines.
        """
        vectors = self._model.embed_texts(_texts(texts), pooling or "")
        if normalize:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.where(lengths > 0, lengths, 1)
        return vectors

    def predict(self, texts: Sequence[Text]) -> Predictions:
        """What a fine-tuned model says of texts or pairs."""
        outputs = self._model.predict_texts(_texts(texts)).astype(np.float64)
        if self.head == "regression":
            return Predictions(None, None, outputs[:, 0])
        if self.head == "multi_label":
            shares = 1 / (1 + np.exp(-outputs))
            chosen = [[self.labels[i] for i in np.flatnonzero(row > 0.5)] for row in shares]
            return Predictions(chosen, shares, None)
        shares = np.exp(outputs - outputs.max(axis=1, keepdims=True)) if len(outputs) else outputs
        shares = shares / shares.sum(axis=1, keepdims=True) if len(outputs) else shares
        return Predictions([self.labels[i] for i in outputs.argmax(axis=1)] if len(outputs) else [], shares, None)

    @overload
    def fill_mask(self, texts: str, *, top: int = 5) -> list[list[Guess]]: ...
    @overload
    def fill_mask(self, texts: Sequence[str], *, top: int = 5) -> list[list[list[Guess]]]: ...
    def fill_mask(self, texts, *, top=5):
        """The likeliest pieces for each [MASK] of a text, or of each of several texts."""
        if isinstance(texts, str):
            return self._model.fill_texts([texts], top)[0]
        return self._model.fill_texts(list(texts), top)

    def parameter_names(self) -> list[str]:
        """The names of all parameters, as parameter() takes them."""
        return self._model.parameter_names()

    def parameter(self, name: str) -> np.ndarray:
        """A parameter as it is stored: float32."""
        return self._model.parameter(name)

    def layers(self) -> list[str]:
        """The token table and the linear layers that may be tensor trains, as weight() and cores() take them."""
        return self._model.layers()

    def weight(self, layer: str) -> np.ndarray:
        """The dense matrix that a layer stands for: float32 (inputs, outputs), for y = x W; of the token table
        (vocabulary, width). A removed layer is zeros. A diagonal beside a tensor train is part of it."""
        return self._model.weight(layer)

    def cores(self, layer: str) -> list[np.ndarray]:
        """The cores of a tensor train, gates multiplied in: float32 (r, n, r') each, those of the input modes first; of
        the token table (r, rows, columns, r'). Empty if the layer is dense or removed."""
        return self._model.cores(layer)


def load(path: str | os.PathLike, *, device: str = "auto", threads: int = 0, length: int = 0,
         settings: Sequence[str] = ()) -> Model:
    """A trained model from a checkpoint or a run's folder (its best model, else its newest).

    device: "cpu", "cuda", "cuda:1" or "auto".
    threads: of the CPU; 0: all.
    length: the most tokens of a sequence; 0: as in training.
    settings: keys of the recipe, such as "precision.compute=fp32".
    """
    return Model(_comera.Model(os.fspath(path), device, threads, length, list(settings)))


def shards(folder: str | os.PathLike, split: str = "train") -> Shards:
    """The documents of a split ("train" or "validation") of shards that `comera data` has made: a sequence of int32
    (tokens,) arrays."""
    return Shards(os.fspath(folder), split)
