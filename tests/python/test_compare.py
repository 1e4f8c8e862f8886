# SPDX-License-Identifier: Apache-2.0
"""`fusec compare --against onnxruntime`."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx

from support import ROOT

FUSEC = Path(os.environ.get("FUSEC_LIBRARY", ROOT / "build/release/lib")).resolve().parent / "bin" / "fusec"


@unittest.skipUnless(FUSEC.exists(), "the command is not built")
class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, model, *flags, python=sys.executable, code=0):
        words = [FUSEC, "compare", model, "--device", "cpu", "--against", "onnxruntime", "--python", python, "--json", *flags]
        environment = {**os.environ, "FUSEC_CACHE_DIR": str(self.folder / "cache"), "TMPDIR": str(self.folder)}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertEqual([p.name for p in self.folder.glob("fusec-compare-*")], [])
        return json.loads(done.stdout) if code < 2 else done.stderr

    def sums(self):
        value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
        weights = np.random.default_rng(0).standard_normal((512, 8)).astype(np.float32)
        graph = onnx.helper.make_graph(
            [node("Relu", ["x"], ["a"], name="first"), node("MatMul", ["a", "w"], ["b"], name="sums"), node("Tanh", ["b"], ["y"])],
            "g", [value("x", 1, [4, 512])], [value("y", 1, [4, 8])], [onnx.numpy_helper.from_array(weights, "w")])
        path = self.folder / "sums.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), path)
        return path

    def test_values_between_the_steps_agree(self):
        convolutions = self.compare(ROOT / "tests/models/mobilenet_v3_small.onnx", "--random-weights", "1")
        self.assertGreater(convolutions["compared"], 40)
        self.assertIn("node", [v.get("matched_by") for v in convolutions["values"]])
        half = self.compare(self.sums(), "--precision", "f16", "--no-fusion")
        self.assertGreaterEqual(half["compared"], 3)

    def test_the_first_over_the_tolerance_is_named(self):
        found = self.compare(self.sums(), "--no-fusion", "--tolerance", "1e-12", code=1)
        self.assertEqual(found["first_bad"]["origin"], "sums (MatMul)")
        self.assertEqual(len(found["first_bad"]["inputs"]["good"]), 1)
        self.assertEqual(found["values"][-1]["output"], True)

    def test_refusals_say_what_is_missing(self):
        self.assertIn("cannot be started", self.compare(self.sums(), python=self.folder / "none", code=2))
        bare = self.folder / "bare.sh"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        bare.chmod(0o755)
        self.assertIn("--python", self.compare(self.sums(), python=bare, code=2))
        graph = self.folder / "g.fir"
        graph.write_text('graph @main(%x: f32[2]) {\n  %0 = relu %x: f32[2]\n  return %0 as "y"\n}\n')
        self.assertIn("runs .onnx files", self.compare(graph, code=2))


if __name__ == "__main__":
    unittest.main()
