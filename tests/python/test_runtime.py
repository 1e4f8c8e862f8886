# SPDX-License-Identifier: Apache-2.0
"""The package over libfusec-c-runtime: it runs packages, and says that it compiles nothing."""
import os
import unittest

import numpy as np

import fusec
from fusec import _library
from support import DIGITS, TestCase, digits, run_python

RUNTIME = os.path.join(os.path.dirname(_library.PATH), _library.RUNTIME_FILE)


@unittest.skipUnless(os.path.exists(RUNTIME), "no libfusec-c-runtime beside the library")
class Runtime(TestCase):
    def run_with_runtime(self, code):
        return run_python("import fusec, numpy as np\n" + code, FUSEC_LIBRARY=RUNTIME)

    def test_runs_packages(self):
        folder = self.folder()
        images, _ = digits()
        engine = fusec.compile(DIGITS / "digits.onnx")
        engine.save(folder / "digits.fsc")
        np.save(folder / "images.npy", images)
        status, _, errors = self.run_with_runtime(
            f"engine = fusec.load({str(folder / 'digits.fsc')!r})\n"
            f"np.save({str(folder / 'out.npy')!r}, engine(np.load({str(folder / 'images.npy')!r})))\n"
            "assert 'libLLVM' not in open('/proc/self/maps').read()")
        self.assertEqual((status, errors), (0, ""))
        np.testing.assert_array_equal(np.load(folder / "out.npy"), engine(images))

    def test_compiles_nothing(self):
        model = str(DIGITS / "digits.onnx")
        calls = {"an ONNX file": f"fusec.compile({model!r})", "bytes": f"fusec.compile(open({model!r}, 'rb').read())",
                 "a builder": "b = fusec.Builder(); b.output('y', b.input('x', 'f32', ['n']) + 1); fusec.compile(b)",
                 "jit": "fusec.jit(lambda x: x + 1)(np.zeros(3, np.float32))"}
        for what, code in calls.items():
            with self.subTest(what):
                status, _, errors = self.run_with_runtime(code)
                self.assertEqual(status, 1)
                self.assertRegex(errors.splitlines()[-1], r"Unsupported: this library runs packages .* compile by libfusec-c")

    def test_other_functions_work(self):
        status, out, errors = self.run_with_runtime("print(fusec.devices()[0]['device'], 'no_library' in fusec.option_keys(), fusec.__version__)")
        self.assertEqual((status, out), (0, f"cpu True {fusec.__version__}\n"), errors)

    def test_is_found_where_it_is_alone(self):
        folder = self.folder()
        for file in ("libfdnn.so.3", _library.RUNTIME_FILE):
            (folder / file).symlink_to(os.path.realpath(os.path.join(os.path.dirname(_library.PATH), file)))
        status, out, errors = run_python("import fusec; print(fusec._library.PATH)", FUSEC_LIBRARY=str(folder))
        self.assertEqual((status, out), (0, str(folder / _library.RUNTIME_FILE) + "\n"), errors)
