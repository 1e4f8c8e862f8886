# SPDX-License-Identifier: Apache-2.0
"""A decoder with stored keys and values, of transformers with random weights: an exported ONNX file by the Python package and by a program
in C, and torch.compile, give the tokens of eager, and compile nothing while the stored part grows."""
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

import torch_support  # skips these tests without PyTorch
import torch
import transformers

import numpy as np

import fusec
from test_torch import Compiles, graphs
from torch_support import TorchCase
from torch_zoo import Decoder

LAYERS, HEADS, DEPTH, WORDS, STEPS = 2, 2, 32, 500, 32
PROMPT = [3, 5, 7, 11, 13, 17, 19]
SAMPLE = Path(os.environ.get("FUSEC_LIBRARY", "")).parent / "bin" / "decoder"


def make_model():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=WORDS, hidden_size=128, intermediate_size=256, num_hidden_layers=LAYERS, num_attention_heads=4,
                                      num_key_value_heads=HEADS, initializer_range=0.2)  # large enough for tokens that differ
    return Decoder(transformers.LlamaForCausalLM(config)).eval()


def export(model, path):
    stored = [torch.randn(1, HEADS, 5, DEPTH) for _ in range(2 * LAYERS)]
    new, past = torch.export.Dim("new", max=512), torch.export.Dim("past", max=2048)
    names = [f"{kind}{layer}" for layer in range(LAYERS) for kind in ("keys", "values")]
    program = torch.onnx.export(model, (torch.randint(1, WORDS, (1, 4)), *stored), dynamo=True, verbose=False, opset_version=18,
                                dynamic_shapes=({1: new}, tuple({2: past} for _ in stored)), input_names=["tokens", *names],
                                output_names=["logits", *(f"new_{name}" for name in names)])
    program.save(path)


def generate(step):
    """The tokens after PROMPT by step(tokens, *stored) -> logits, *stored, and the microseconds of a later step."""
    stored = [np.zeros((1, HEADS, 0, DEPTH), np.float32)] * (2 * LAYERS)
    new, tokens, times = PROMPT, [], []
    for _ in range(STEPS + 1):
        start = time.perf_counter()
        logits, *stored = step(np.array([new]), *stored)
        new = [int(logits[0, -1].argmax())]
        times.append(time.perf_counter() - start)
        tokens += new
    return tokens, 1e6 * sum(times[2:]) / len(times[2:])


def files(folder):
    return sum(path.is_file() for path in folder.rglob("*.fsk"))


class KeysAndValues(TorchCase):
    def setUp(self):
        super().setUp()
        self.model = make_model()
        self.tokens, self.eager_us = generate(self.by_torch(self.model))
        self.assertGreater(len(set(self.tokens)), 4)

    @staticmethod
    def by_torch(function):
        def step(*arrays):
            with torch.no_grad():
                return [made.numpy() for made in function(*map(torch.from_numpy, arrays))]
        return step

    def exported(self):
        path = self.folder() / "decoder.onnx"
        export(self.model, path)
        return path

    def say(self, what, us):
        print(f"{what}: {us:.0f} us a token (eager {self.eager_us:.0f})", flush=True)

    def test_onnx(self):
        cache = self.folder()
        engine = fusec.compile(self.exported(), threads=1, cache_dir=cache)
        known = files(cache)
        self.assertEqual(known, engine.stats["compiled_kernels"])
        tokens, us = generate(engine.run)
        self.assertEqual(tokens, self.tokens)
        self.assertEqual(files(cache), known)  # none was compiled for a later length
        self.say("ONNX by Python", us)

    def test_torch(self):
        torch._dynamo.reset()
        before = graphs()
        with Compiles() as engines:
            compiled, seen = self.compiled(self.model, threads=1), []

            def step(tokens, *stored):
                stored = [torch.from_numpy(array) for array in stored]
                for tensor in stored:
                    if tensor.shape[2] > 1:  # torch has cases of their own for sizes of 0 and 1
                        torch._dynamo.mark_dynamic(tensor, 2)
                with torch.no_grad():
                    made = [tensor.numpy() for tensor in compiled(torch.from_numpy(tokens), *stored)]
                seen.append((graphs() - before, len(engines)))
                return made
            tokens, us = generate(step)
        self.assertEqual(tokens, self.tokens)
        self.assertEqual(seen[0], (1, 1))
        self.assertEqual(set(seen[1:]), {(2, 2)})  # one graph of the prompt, one of all other steps
        self.say("torch.compile", us)

    @unittest.skipUnless(SAMPLE.is_file(), "samples/decoder is not built")
    def test_c(self):
        onnx = self.exported()
        package = onnx.with_suffix(".fsc")
        fusec.Model.load_onnx(onnx).save(package, targets=["cpu:native"])
        for path in onnx, package:
            done = subprocess.run([SAMPLE, path, str(HEADS), str(DEPTH), str(STEPS), *map(str, PROMPT)], capture_output=True, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([int(t) for t in done.stdout.splitlines()[0].split()[1:]], self.tokens)
            self.say(f"C, {path.suffix}", float(re.search(r"then ([\d.]+) us", done.stdout)[1]))
