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


def build(shape, make, dtype="f32", **options):
    """An engine of y = make(x)."""
    builder = fusec.Builder()
    builder.output("y", make(builder.input("x", dtype, shape)))
    return fusec.compile(builder, **options)


def digits():
    images = np.load(DIGITS / "images.npy").astype(np.float32)[:, None] / 16
    return images, np.load(DIGITS / "labels.npy")


def programs(page):
    """The Python programs of a page, each with what the page shows as its output."""
    return re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", (ROOT / page).read_text(), re.S)


def run_python(code, **environment):
    """(exit status, stdout, stderr) of a Python of its own. None removes a variable."""
    values = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
                          env={name: value for name, value in values.items() if value is not None})
    return done.returncode, done.stdout, done.stderr


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
