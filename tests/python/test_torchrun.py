# SPDX-License-Identifier: Apache-2.0
"""The sample of torchrun: two processes give the results of one."""
import os
import re
import subprocess
import sys

import torch_support  # skips these tests without PyTorch

import numpy as np

import fusec
from support import DIGITS, PACKAGE, ROOT, TestCase, digits


class Torchrun(TestCase):
    def test_two_processes_give_the_results_of_one(self):
        place = self.folder()
        images, _ = digits()
        np.save(place / "images.npy", images[:331])  # parts that differ in size, and a rest of a batch
        fusec.Model.load_onnx(DIGITS / "digits.onnx").save(place / "digits.fsc", targets=["cpu:native"], batch_invariant=True)
        arguments = re.search(r"^torchrun (.*)$", (ROOT / "docs" / "ray.md").read_text(), re.M)[1].split()
        arguments = [ROOT / word if word.endswith(".py") else word for word in arguments]
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", *arguments], cwd=place,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("331 images by 2 processes on cpu", done.stdout)
        np.testing.assert_array_equal(np.load(place / "out.npy"), fusec.load(place / "digits.fsc", threads=1)(images[:331]))
