#!/usr/bin/env python3
"""Tests the installed package comera in whatever environment runs this: scripts/wheel.sh --test. Needs numpy alone."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import comera

FEW_STEPS = {"phase.0.steps": 30, "phase.0.warmup_steps": 3, "phase.1.steps": 10, "run.evaluation_interval": 20}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        cls.lines = []
        sources = [pathlib.Path(json.__file__).parent, pathlib.Path(unittest.__file__).parent]
        cls.first = comera.pretrain("quickstart", input=sources, output=cls.at / "run", settings=FEW_STEPS,
                                  on_log=cls.lines.append)
        cls.model = comera.load(cls.at / "run")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_run_is_observed(self):
        self.assertEqual(self.lines, self.first.metrics)
        self.assertEqual(self.lines[-1]["step"], 40)
        self.assertTrue(any("validation_loss" in line for line in self.lines))
        losses = [line["loss"] for line in self.lines if "loss" in line]
        self.assertLess(losses[-1], losses[0])

    def test_text_becomes_ids_and_back(self):
        text = "def __init__(self, name):\n    pass\n"
        ids = self.model.tokenize(text)
        self.assertEqual(ids.dtype, np.int32)
        self.assertEqual(self.model.decode(ids), text)
        self.assertIsInstance(self.model.piece(int(ids[0])), str)

    def test_vectors(self):
        texts = ["open a file", "close a socket", "a " * 500, ""]
        vectors = self.model.embed(texts)
        self.assertEqual((vectors.shape, vectors.dtype), ((4, self.model.hidden), np.float32))
        self.assertLess(np.abs(vectors[:1] - self.model.embed(texts[:1])).max(), 0.05 * np.abs(vectors).max())
        lengths = np.linalg.norm(self.model.embed(texts, normalize=True), axis=1)
        self.assertLess(np.abs(lengths - 1).max(), 1e-5)
        self.assertEqual(self.model.embed([]).shape, (0, self.model.hidden))
        self.assertEqual(self.model.embed([("a", "b")], pooling="first").shape, (1, self.model.hidden))
        with self.assertRaises(TypeError):
            self.model.embed("one text")
        with self.assertRaisesRegex(comera.UsageError, "pooling is"):
            self.model.embed(texts, pooling="max")

    def test_vectors_are_those_of_the_command(self):
        (self.at / "texts.txt").write_text("open a file\nclose a socket\n")
        comera.command("embed", self.at / "run", "--input", self.at / "texts.txt", "--output", self.at / "v.jsonl")
        written = [json.loads(line)["vector"] for line in (self.at / "v.jsonl").read_text().splitlines()]
        self.assertLess(np.abs(np.array(written) - self.model.embed(["open a file", "close a socket"])).max(), 1e-6)

    def test_vectors_of_an_import_are_pooled_as_it_says(self):
        folder, checkpoint = self.at / "encoder", self.at / "encoder.h5"
        comera.command("export", self.at / "run", "--to", folder, "--sentence-vectors")
        texts = ["open a file", "close a socket"]
        for mode, pooling in {"mean": "mean", "cls": "first", "max": None}.items():
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": mode}))
            comera.command("import", folder, "--output", checkpoint, "--overwrite")
            model = comera.load(checkpoint)
            if pooling:
                self.assertTrue((model.embed(texts) == model.embed(texts, pooling=pooling)).all())
            else:
                with self.assertRaisesRegex(comera.UsageError, "makes its vectors by max"):
                    model.embed(texts)
        with self.assertRaisesRegex(comera.UsageError, "its head is random"):
            model.fill_mask("a [MASK]")

    def test_masks(self):
        guesses = self.model.fill_mask("def f([MASK]):\n    return [MASK]", top=3)
        self.assertEqual([len(one) for one in guesses], [3, 3])
        self.assertGreaterEqual(guesses[0][0][1], guesses[0][1][1])
        self.assertEqual(len(self.model.fill_mask(["a [MASK]", "b [MASK]"])), 2)
        with self.assertRaisesRegex(comera.UsageError, r"no \[MASK\]"):
            self.model.fill_mask("nothing")
        with self.assertRaisesRegex(comera.UsageError, "without a task"):
            self.model.predict(["text"])

    def test_matrices_are_those_of_the_cores(self):
        layer = "encoder.0.attention.query"
        cores, matrix = self.model.cores(layer), self.model.weight(layer)
        self.assertEqual(matrix.shape, (256, 256))
        product = cores[0]
        for core in cores[1:]:
            product = np.tensordot(product, core, 1)
        self.assertLess(np.abs(product.reshape(256, 256) - matrix).max(), 1e-5)
        self.assertEqual(self.model.weight("embedding.tokens").shape, (self.model.vocabulary, 256))
        self.assertIn("head.bias", self.model.parameter_names())
        self.assertEqual(self.model.parameter("encoder.0.norm1.weight").shape, (256,))
        self.assertEqual(self.model.recipe["model"]["hidden"], 256)
        for call in (self.model.weight, self.model.cores, self.model.parameter):
            with self.assertRaises(KeyError):
                call("no such layer")

    def test_shards(self):
        documents = comera.shards(self.at / "run" / "data" / "shards")
        self.assertEqual(sum(len(ids) for ids in documents), documents.tokens)
        self.assertEqual(documents[-1].tolist(), documents[len(documents) - 1].tolist())
        self.assertIsInstance(self.model.decode(documents[0]), str)
        with self.assertRaises(IndexError):
            documents[len(documents)]
        with self.assertRaises(comera.Error):
            comera.shards(self.at)

    def test_a_table_is_learned(self):
        table = self.at / "table.csv"
        rows = [f"item {i} is {'good' if i % 2 else 'bad'},{'yes' if i % 2 else 'no'}" for i in range(200)]
        table.write_text("text,label\n" + "\n".join(rows) + "\n")
        comera.finetune(start_from=self.at / "run", input=table, output=self.at / "tuned", settings={"phase.0.epochs": 8})
        model = comera.load(self.at / "tuned")
        self.assertEqual((model.head, model.labels), ("classification", ["no", "yes"]))
        found = model.predict(["item 7 is good", "item 8 is bad"])
        self.assertEqual(found.labels, ["yes", "no"])
        self.assertEqual(found.probabilities.shape, (2, 2))
        self.assertLess(np.abs(found.probabilities.sum(axis=1) - 1).max(), 1e-12)
        self.assertEqual(model.predict([]).labels, [])

    def test_a_callback_that_raises_stops_with_a_checkpoint(self):
        def refuse(line):
            raise ValueError("enough")

        with self.assertRaisesRegex(ValueError, "enough"):
            comera.pretrain("quickstart", data=self.at / "run" / "data" / "shards", tokenizer=self.at / "run" / "tokenizer.model",
                            output=self.at / "stopped", settings={"run.log_interval": 2}, on_log=refuse)
        self.assertTrue(list((self.at / "stopped" / "checkpoints").glob("*.h5")))
        done = comera.resume(self.at / "stopped", settings={**FEW_STEPS, "phase.0.steps": 40})
        self.assertEqual(done.metrics[-1]["step"], 50)

    def test_errors_are_sentences(self):
        with self.assertRaisesRegex(comera.UsageError, "no such checkpoint"):
            comera.load(self.at / "nothing")
        with self.assertRaisesRegex(comera.UsageError, "did you mean"):
            comera.pretrain("quikstart", input=self.at, output=self.at / "x")
        self.assertTrue(issubclass(comera.UsageError, comera.Error))

    def test_the_command_is_the_program(self):
        command = pathlib.Path(sys.executable).parent / "comera"
        version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn(comera.__version__, version)
        self.assertIn("quickstart", comera.command("recipes"))
        exported = comera.command("export", self.at / "run", "--to", self.at / "exported", "--onnx")
        self.assertIn("model.onnx", exported)


if __name__ == "__main__":
    unittest.main()
