# SPDX-License-Identifier: Apache-2.0
"""What several tests use."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import fusec

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits"
PACKAGE = Path(fusec.__file__).resolve().parent
FAKE_CUDA = Path(os.environ["FUSEC_LIBRARY"]).resolve().parent / "fake_cuda" / "libcuda.so.1" if "FUSEC_LIBRARY" in os.environ else None


def build(shape, make, dtype="f32", **options):
    """An engine of y = make(x)."""
    builder = fusec.Builder()
    builder.output("y", make(builder.input("x", dtype, shape)))
    return fusec.compile(builder, **options)


def digits():
    images = np.load(DIGITS / "images.npy").astype(np.float32)[:, None] / 16
    return images, np.load(DIGITS / "labels.npy")


def programs(page, language="python"):
    """The Python programs of a page, each with what the page shows as its output. Those that need more than a CPU are in "py"."""
    return re.findall(rf"```{language}\n(.*?)```(?:\n\n```\n(.*?)```)?", (ROOT / page).read_text(), re.S)


def run_python(code, **environment):
    """(exit status, stdout, stderr) of a Python of its own. None removes a variable."""
    values = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          env={name: value for name, value in values.items() if value is not None})
    return done.returncode, done.stdout, done.stderr


def needs_fake_cuda(test):
    """Skips a test where the driver of tests/fake_cuda is not built."""
    return unittest.skipUnless(FAKE_CUDA is not None and FAKE_CUDA.exists(), "the target fusec_fake_cuda is not built")(test)


def run_with_fake_cuda(command, gpus=1, fail=None, **environment):
    """Runs Python with the driver of tests/fake_cuda. Answers its status and what it printed."""
    environment = {**os.environ, "LD_PRELOAD": str(FAKE_CUDA), "FUSEC_FAKE_GPUS": str(gpus), **environment}
    if fail is not None:
        environment["FUSEC_FAKE_FAIL"] = fail
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


class TestCase(unittest.TestCase):
    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return Path(made.name)

    def shared_library(self, path, source):
        """Compiles C to a shared library with the file's name as its SONAME."""
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, f"-Wl,-soname,{path.name}"], input=source, text=True, check=True)
        return path
