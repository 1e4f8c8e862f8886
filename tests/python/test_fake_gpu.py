# SPDX-License-Identifier: Apache-2.0
"""Runs fake_gpu.py, and the tests for a card of test_gpu.py, with a CUDA driver that has its memory on the host."""
import unittest

from support import FAKE_CUDA, PACKAGE, ROOT, needs_fake_cuda, run_with_fake_cuda

START = f"""
import sys, unittest
sys.path[:0] = [{str(ROOT / "tests" / "python")!r}, {str(PACKAGE.parent)!r}]
"""


@needs_fake_cuda
class Fake(unittest.TestCase):
    def run_all(self, module, may_skip=(), **environment):
        code = START + (f"done = unittest.main('{module}', argv=['fake'], exit=False).result\n"
                        f"print('good:', done.wasSuccessful(), done.testsRun > 20, {{why for _, why in done.skipped}} - set({may_skip!r}))")
        status, out = run_with_fake_cuda(["-c", code], FUSEC_LIBRARY=str(FAKE_CUDA), **environment)
        self.assertEqual(status, 0, out)
        self.assertEqual(out.splitlines()[0], "good: True True set()", out)

    def test_order_and_ends(self):
        self.run_all("fake_gpu", ["one GPU"])

    def test_second_gpu(self):
        self.run_all("fake_gpu", gpus=2)

    def test_without_pools(self):
        self.run_all("fake_gpu", ["one GPU", "the host waits for frees"], FUSEC_FAKE_POOLS="0")

    def test_cases_for_a_card(self):
        self.run_all("test_gpu", ["no PyTorch here", "no PyTorch with a GPU here", "this PyTorch knows the old capsules alone"])

    def test_tensors_that_outlive_python(self):
        """Deleters may be called when fusec has left Python, as by the exit handler of a library; memory is left to the process."""
        code = START + """
import atexit, ctypes
def late():  # is called last, as it is registered before fusec is imported
    free = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value
    for consumer in consumers: print(consumer.managed.deleter == free, consumer.end())
    kept.clear()
    print(Driver().library.fake_cuda_count(b"live memory"))
atexit.register(late)
import numpy, fusec
from cuda_driver import Driver
from fake_gpu import Consumer
from support import build
engine = build(["n"], lambda x: x + 1, device="cuda:0")
kept = [engine(numpy.zeros(4, "f4"), out="device")]
consumers = [Consumer(engine(numpy.zeros(4, "f4"), out="device"), 1, max_version=version) for version in ((1, 0), (0, 8))]
"""
        status, out = run_with_fake_cuda(["-c", code], FUSEC_LIBRARY=str(FAKE_CUDA))
        self.assertEqual((status, out), (0, "True None\nTrue None\n3\n"))

    def test_forked_child(self):
        """A child cannot use the context of its parent, and leaves the memory to it."""
        code = START + """
import os, numpy, fusec
from support import build
from cuda_driver import Driver
y = build(["n"], lambda x: x + 1, device="cuda:0")(numpy.zeros(4, "f4"), out="device")
count = Driver().library.fake_cuda_count
child = os.fork()
if child == 0:
    del y
    os._exit(count(b"live memory"))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        status, out = run_with_fake_cuda(["-c", code], FUSEC_LIBRARY=str(FAKE_CUDA))
        self.assertEqual((status, out), (0, "1\n"))


if __name__ == "__main__":
    unittest.main()
