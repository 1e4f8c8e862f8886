# SPDX-License-Identifier: Apache-2.0
"""Engines on a GPU, with arrays of the host, and with tensors of PyTorch where it is installed."""
import importlib.util
import unittest

import numpy as np

import fusec
from support import DIGITS, TestCase, build, digits

GPU = next((d["device"] for d in fusec.devices() if d["device"].startswith("cuda")), None)


@unittest.skipUnless(GPU, "no GPU here")
class Gpu(TestCase):
    def test_arrays_of_the_host(self):
        images, labels = digits()
        engine = fusec.compile(DIGITS / "digits.onnx", device=GPU)
        self.assertEqual(engine.device, GPU)
        self.assertEqual((engine(images).argmax(axis=1) == labels).sum(), 358)
        out = np.empty((360, 10), np.float32)
        self.assertIs(engine(images, out=out), out)
        np.testing.assert_allclose(out, fusec.compile(DIGITS / "digits.onnx")(images), atol=1e-3)

    def test_package(self):
        path = self.folder() / "digits.fsc"
        fusec.compile(DIGITS / "digits.onnx", device=GPU).save(path)
        self.assertEqual(fusec.load(path, device=GPU)(digits()[0][:3]).shape, (3, 10))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
    def test_tensors_of_pytorch(self):
        import torch

        engine = build(["n", "m"], lambda x: x * 2 + 1, "bf16", device=GPU)
        x = torch.zeros(64, 4096, device=GPU, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        with torch.cuda.stream(torch.cuda.Stream()):  # work on another stream is waited for
            for i in range(1, 50):
                x += 1
                self.assertIs(engine(x, out=out), out)
                self.assertEqual(out.float().unique().tolist(), [2 * i + 1])
        np.testing.assert_array_equal(fusec.from_bf16(engine(x.t()))[0, :3], [99, 99, 99])
