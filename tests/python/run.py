#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package, and prints what importing it takes.

usage: FUSEC_LIBRARY=build/release/lib PYTHONPATH=bindings/python python3 tests/python/run.py [test_engine.Threads ...]
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TIMER = "import time; import numpy; start = time.perf_counter(); import fusec; print(time.perf_counter() - start)"


def main():
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    with tempfile.TemporaryDirectory() as folder:  # for the compiled modules, which users have from their second import on
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", TIMER]
        took = min(float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout) for _ in range(6))
    print(f"import fusec, after numpy: {took * 1e3:.1f} ms", flush=True)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(str(here))
    done = unittest.TextTestRunner(verbosity=1).run(suite)
    if done.testsRun == 0:
        print("no test was found")
    return 0 if done.wasSuccessful() and done.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
