# SPDX-License-Identifier: Apache-2.0
"""A few random graphs through the execution provider; onnxruntime_graphs.py runs many."""
import onnxruntime_graphs
from support import TestCase


class Graphs(TestCase):
    def test_few(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                self.assertIsNone(onnxruntime_graphs.check(seed)[0])
