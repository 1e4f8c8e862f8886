# SPDX-License-Identifier: Apache-2.0
"""Progress and Ctrl-C, weights that are replaced, functions of Python in a model, messages by severity."""
import logging
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import fusec
import support  # noqa: F401


def model(depth=3):
    builder = fusec.Builder()
    x = builder.input("x", "f32", ["n", 32])
    for _ in range(depth):
        x = (x * 2).softmax(axis=-1).exp()
    builder.output("y", x)
    return builder.finish()


class Progress(unittest.TestCase):
    def test_stages_are_told(self):
        told = []
        with tempfile.TemporaryDirectory() as cache:
            engine = fusec.compile(model(), progress=lambda stage, done: told.append((stage, done)), cache_dir=cache)
        self.assertTrue({"optimize", "lower", "emit"} <= {stage for stage, _ in told})
        self.assertTrue(all(0 <= done <= 1 for _, done in told))
        count = len(told)
        engine(np.zeros((4, 32), np.float32))
        self.assertEqual(len(told), count)  # after the compile nobody is told

    def test_an_answer_cancels(self):
        with tempfile.TemporaryDirectory() as cache:
            with self.assertRaises(fusec.Cancelled) as caught:
                fusec.compile(model(), progress=lambda stage, done: stage == "emit", cache_dir=cache)
            self.assertIn("emit", str(caught.exception))
            self.assertEqual(fusec.compile(model(), cache_dir=cache)(np.zeros((1, 32), np.float32)).shape, (1, 32))

    def test_an_exception_cancels_and_is_raised(self):
        def fail(stage, done):
            raise KeyError(stage)
        for call in (lambda: fusec.compile(model(), progress=fail), lambda: model().save("/nowhere/x.fsc", progress=fail)):
            with self.assertRaises(KeyError):
                call()
        with self.assertRaises(fusec.InvalidArgument):
            fusec.compile(model(), progress=5)

    def test_ctrl_c_cancels(self):
        # As Ctrl-C does, while the main thread waits: the signal comes from the compile itself.
        code = ("import os, signal, sys\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
                "sys.path.insert(0, 'tests/python')\n"
                "import fusec\n"
                "from test_host import model\n"
                "stages = []\n"
                "def told(stage, done):\n"
                "    stages.append(stage)\n"
                "    if stage == 'lower' and stages.count('lower') == 1:\n"
                "        os.kill(os.getpid(), signal.SIGINT)\n"
                "        import time; time.sleep(0.2)\n"
                "try:\n"
                "    fusec.compile(model(6), progress=told, no_cache=True)\n"
                "except KeyboardInterrupt:\n"
                "    print('interrupted', 'link' in stages)\n"
                "print(fusec.compile(model(1), no_cache=True).inputs[0].name)\n")
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(out.stdout.split(), ["interrupted", "False", "x"], out.stderr)

    def test_threads_compile_with_progress(self):
        told, before = [], signal.getsignal(signal.SIGINT)
        threads = [threading.Thread(target=lambda: fusec.compile(model(), progress=lambda *a: told.append(a), no_cache=True)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreater(len(told), 3)
        self.assertIs(signal.getsignal(signal.SIGINT), before)


class Weights(unittest.TestCase):
    def engine(self, **options):
        builder = fusec.Builder()
        x = builder.input("x", "f32", ["n", 3])
        builder.output("y", x @ builder.weight("w", np.eye(3, dtype=np.float32)) + builder.weight("b", np.ones(3, np.float32)))
        return fusec.compile(builder, no_cache=True, **options)

    def test_replaced(self):
        engine = self.engine(replaceable_weights="*")
        self.assertEqual([w.name for w in engine.weights], ["w", "b"])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_allclose(engine(x), x + 1)
        w = np.arange(9, dtype=np.float32).reshape(3, 3)
        engine.set_weight("w", w.T)
        np.testing.assert_allclose(engine(x), x @ w.T + 1)
        engine.set_weight("b", np.zeros(3, np.float32))
        w[:] = 0
        np.testing.assert_allclose(engine(x), x @ np.arange(9).reshape(3, 3).T)

    def test_refused(self):
        with self.assertRaisesRegex(fusec.InvalidArgument, "no weight 'v'"):
            self.engine(replaceable_weights=["w"]).set_weight("v", np.zeros(3, np.float32))
        with self.assertRaisesRegex(fusec.InvalidArgument, "must be f32\\[3\\]"):
            self.engine(replaceable_weights="*").set_weight("b", np.zeros(4, np.float32))
        with self.assertRaisesRegex(fusec.InvalidArgument, "replaceable"):
            self.engine().set_weight("w", np.eye(3, dtype=np.float32))


class Calls(unittest.TestCase):
    def tearDown(self):
        fusec.register_call("python.test", None)

    def engine(self, **attributes):
        builder = fusec.Builder()
        x = builder.input("x", "f32", ["n", 2])
        builder.output("y", builder.custom_call(x + 1, x, name="python.test", dtype="f32", shape=["n", 2], **attributes) * 2)
        return fusec.compile(builder, no_cache=True)

    def test_called(self):
        seen = []

        def add(a, b, out, attributes):
            seen.append(attributes)
            self.assertFalse(a.flags.writeable)
            out[:] = a + b
        fusec.register_call("python.test", add)
        engine = self.engine(attributes='key="a b" other=1')
        np.testing.assert_allclose(engine([[1, 2], [3, 4]]), [[6, 10], [14, 18]])
        self.assertEqual(engine(np.zeros((0, 2), np.float32)).shape, (0, 2))
        self.assertEqual(seen[0], 'key="a b" other=1')

    def test_exceptions_are_errors(self):
        def fail(a, b, out, attributes):
            raise ValueError("as asked")
        fusec.register_call("python.test", fail)
        engine = self.engine()
        hook, seen = sys.excepthook, []
        sys.excepthook = lambda kind, value, trace: seen.append(str(value))
        try:
            with self.assertRaisesRegex(fusec.Error, "python.test"):
                engine([[1, 2]])
        finally:
            sys.excepthook = hook
        self.assertEqual(seen, ["as asked"])

    def test_unregistered(self):
        with self.assertRaisesRegex(fusec.Unsupported, "python.test"):
            self.engine()
        with self.assertRaises(fusec.InvalidArgument):
            fusec.register_call("python.test", 7)


class Messages(unittest.TestCase):
    def test_have_levels(self):
        with self.assertLogs("fusec", logging.DEBUG) as logs:
            fusec.compile(model(), no_cache=True)
        levels = {record.levelno for record in logs.records}
        self.assertEqual(levels, {logging.DEBUG, logging.INFO})


if __name__ == "__main__":
    unittest.main()
