# SPDX-License-Identifier: Apache-2.0
"""What ONNX's package reads in the files of `fusec graph --onnx`."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import onnx

from support import ROOT

FUSEC = Path(os.environ.get("FUSEC_LIBRARY", ROOT / "build/release/lib")).resolve().parent / "bin" / "fusec"


@unittest.skipUnless(FUSEC.exists(), "the command is not built")
class GraphOnnx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def draw(self, model, *flags):
        out = self.folder / "drawn.onnx"
        subprocess.run([FUSEC, "graph", model, "--onnx", out, *flags], check=True, capture_output=True)
        self.assertLess(out.stat().st_size, 1 << 20)
        onnx.checker.check_model(str(out), full_check=True)
        return onnx.load(str(out))

    def test_every_region_is_a_function_that_is_called(self):
        for name, target in (("mobilenet_v3_small", "x86-64-v3"), ("swin_t", "x86-64-v3"), ("gpt2", "sm_90")):
            with self.subTest(name, target=target):
                model = self.draw(ROOT / f"tests/models/{name}.onnx", "--random-weights", "1", "--target", target)
                functions = {f.name: f for f in model.functions}
                calls = [n for n in model.graph.node if n.domain == "fusec.regions"]
                self.assertEqual(sorted(n.op_type for n in calls), sorted(functions))
                self.assertGreater(len(calls), 10)
                for call in calls:
                    function = functions[call.op_type]
                    self.assertEqual(len(call.input), len(function.input))
                    self.assertEqual(len(call.output), len(function.output))
                    told = {p.key: p.value for p in call.metadata_props}
                    self.assertIn(told["kind"], ("library", "generated"))
                    self.assertEqual("bound_us" in told, "kernel" in told)

    def origins(self, source):
        return [p.value for f in self.draw(source).functions for n in f.node for p in n.metadata_props if p.key == "origin"]

    def test_texts_of_a_model_stay_texts(self):
        name = 'a\x01\n"}{\\ \u20ac metadata_props'
        value = onnx.helper.make_tensor_value_info
        node = onnx.helper.make_node("Relu", ["x"], ["y"], name=name)
        graph = onnx.helper.make_graph([node], "g", [value("x", 1, [2, "N"])], [value("y", 1, [2, "N"])])
        source = self.folder / "quotes.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), source)
        (origin,) = self.origins(source)
        self.assertNotIn("\x01", origin)
        for part in ("a\\x01", '"}{', "\u20ac metadata_props"):
            self.assertIn(part, origin)

    def test_bytes_that_are_no_text_are_escaped(self):
        source = self.folder / "bytes.fir"
        source.write_bytes(b'graph @main(%x: f32[2]) {\n  %0 = relu %x: f32[2]  // \xff\xc3\xa9\xed\xa0\x80\n  return %0 as "y"\n}\n')
        self.assertEqual(self.origins(source), ["\\xff\u00e9\\xed\\xa0\\x80"])

    def test_outputs_that_are_inputs_or_constants(self):
        source = self.folder / "copies.fir"
        source.write_text('graph @main(%x: f32[2]) {\n  %0 = constant f32[2] {1, 2}\n  return %x as "y", %x as "z", %0 as "c"\n}\n')
        model = self.draw(source)
        self.assertEqual([o.name for o in model.graph.output], ["y", "z", "c"])


if __name__ == "__main__":
    unittest.main()
