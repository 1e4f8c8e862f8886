# SPDX-License-Identifier: Apache-2.0
"""The sample of Ray: all inputs have one result each, also where a worker is killed on the way, and a second job runs what is left."""
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

import fusec
from support import DIGITS, PACKAGE, ROOT, TestCase, digits

INPUTS = 10_000


@unittest.skipUnless(importlib.util.find_spec("ray"), "Ray is not installed; ./dev test --frameworks installs it")
class Ray(TestCase):
    def setUp(self):
        self.place = self.folder()
        self.images, _ = digits()
        (self.place / "inputs").mkdir()
        for i in range(INPUTS):
            np.save(self.place / "inputs" / f"{i}.npy", self.images[i % len(self.images)])
        fusec.Model.load_onnx(DIGITS / "digits.onnx").save(self.place / "digits.fsc", targets=["cpu:native"], batch_invariant=True)
        self.expected = fusec.load(self.place / "digits.fsc")(self.images)

    def start(self):
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "RAY_TMPDIR": str(self.place / "r"), "RAY_DEDUP_LOGS": "0",
                       "RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
        environment.pop("RAY_ADDRESS", None)
        sample, *arguments = re.search(r"^python3 (.*--threads.*)$", (ROOT / "docs" / "ray.md").read_text(), re.M)[1].split()
        job = subprocess.Popen([sys.executable, ROOT / sample, *arguments, "--batch", "32"],
                               cwd=self.place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, job)
        return job

    @staticmethod
    def end(job):
        if job.poll() is None:
            job.terminate()
            job.communicate()

    def results(self):
        return {path.name for path in (self.place / "outputs").glob("*.npy")}

    def workers(self):
        """The workers of this test: their parent's command line has the test's folder."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"ray::MapWorker" in (process / "cmdline").read_bytes():
                    parent = re.search(r"PPid:\s+(\d+)", (process / "status").read_text())[1]
                    if str(self.place).encode() in Path(f"/proc/{parent}/cmdline").read_bytes():
                        yield int(process.name)
            except OSError:
                pass  # it ended meanwhile

    def kill_one_worker(self, job):
        """One that runs inputs: some results are there."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and job.poll() is None:
            if len(self.results()) > INPUTS // 20:
                for worker in self.workers():
                    os.kill(worker, signal.SIGKILL)
                    return worker
            time.sleep(0.05)
        self.fail("no worker was found")

    def test_each_input_has_one_result_though_a_worker_is_killed(self):
        job = self.start()
        killed = self.kill_one_worker(job)
        before = len(self.results())
        out, errors = job.communicate(timeout=600)
        self.assertEqual(job.returncode, 0, errors)
        self.assertLess(before, INPUTS)  # there was work left
        self.assertEqual(self.results(), {f"{i}.npy" for i in range(INPUTS)})
        for i in range(INPUTS):
            np.testing.assert_array_equal(np.load(self.place / "outputs" / f"{i}.npy"), self.expected[i % len(self.images)])
        self.assertIn(f"{INPUTS} results", out)
        print(f"worker {killed} was killed after {before} of {INPUTS} results", flush=True)
        for i in range(0, INPUTS, 500):
            (self.place / "outputs" / f"{i}.npy").unlink()
        out, errors = self.start().communicate(timeout=600)
        self.assertRegex(out, rf"{INPUTS // 500} inputs to run\n{INPUTS // 500} results", errors)
        self.assertEqual(len(self.results()), INPUTS)
