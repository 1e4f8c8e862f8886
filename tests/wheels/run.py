#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the wheels into fresh virtual environments, as users do, and tries what they promise.

usage: run.py FOLDER PYTHON   FOLDER holds the wheels; PYTHON, of a virtual environment, has NumPy, onnx and ONNX Runtime

Run by a Python that has pip. Nothing is fetched: what the wheels need of others comes from PYTHON's packages.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "samples" / "digits"
FOLDER, PYTHON = (Path(argument).absolute() for argument in sys.argv[1:3]) if len(sys.argv) == 3 else sys.exit(__doc__)

# Prints whether a package of the digits says the right ones. `fusec` may be with or without its compiler.
RUN_PACKAGE = """
import sys, numpy, fusec
images, labels = (numpy.load(f"{sys.argv[2]}/{name}.npy") for name in ("images", "labels"))
found = fusec.load(sys.argv[1])(images.astype("f4")[:, None] / 16).argmax(axis=1)
print(int((found == labels).sum()), "of", len(labels))
"""
IMPORT_TIME = "import time, numpy; start = time.perf_counter(); import fusec; print(time.perf_counter() - start)"


class Environment:
    """A virtual environment with wheels of FOLDER, which sees PYTHON's packages."""

    def __init__(self, folder, *names):
        self.bin = Path(folder) / "bin"
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], check=True)
        site = self.output("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        others = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, capture_output=True, text=True)
        (Path(site) / "others.pth").write_text(others.stdout)
        self.site = Path(site)
        self.pip("install", "--no-index", "--find-links", str(FOLDER), *names)

    def pip(self, *arguments):
        subprocess.run([sys.executable, "-m", "pip", "--python", self.bin / "python", "--quiet", "--disable-pip-version-check", *arguments],
                       check=True, env={**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"})

    def run(self, program, *arguments):
        """What a program of the environment answers. Nothing of a build is found but through the environment."""
        variables = {name: value for name, value in os.environ.items() if name not in ("FUSEC_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")}
        variables["PATH"] = "/usr/bin:/bin"
        return subprocess.run([self.bin / program, *map(str, arguments)], capture_output=True, text=True, cwd="/", env=variables)

    def output(self, *arguments, program="python"):
        done = self.run(program, *arguments)
        if done.returncode != 0:
            raise AssertionError(f"{program} {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.runtime = Environment(cls.folder / "runtime", "fusec-runtime")
        cls.full = Environment(cls.folder / "full", "fusec", "onnxruntime-ep-fusec")
        cls.package = cls.folder / "digits.fsc"
        cls.full.output("compile", DIGITS / "digits.onnx", "-o", cls.package, "--target", "cpu:native", program="fusec")

    def test_the_samples(self):
        self.assertIn("99.44 %", self.full.output(ROOT / "samples/python/digits.py"))
        self.full.output(ROOT / "samples/python/onnxruntime_digits.py")

    def test_every_command_is_there(self):
        for start in (["-m", "fusec"],), ([],):
            program = "python" if start[0] else "fusec"
            text = self.full.output(*start[0], "--help", program=program)
            for command in "run", "bench", "compile", "verify", "tune", "explain", "doctor", "conformance":
                self.assertRegex(text, rf"\b{command}\b")
        self.full.output("-m", "fusec", "verify", DIGITS / "digits.onnx", "--batch", "2")
        self.full.output("-m", "fusec", "bench", DIGITS / "digits.onnx", "--runs", "1")
        self.full.output("-m", "fusec", "bench", self.package, "--runs", "1")

    def test_torch_finds_its_backend(self):
        text = "from importlib.metadata import entry_points as e; print([p.value for p in e(group='torch_dynamo_backends') if p.name == 'fusec'])"
        self.assertEqual(self.full.output("-c", text), "['fusec.torch:backend']\n")

    def test_the_runtime_runs_packages(self):
        expected = self.full.output("-c", RUN_PACKAGE, self.package, DIGITS)
        self.assertEqual(expected, "358 of 360\n")
        self.assertEqual(self.runtime.output("-c", RUN_PACKAGE, self.package, DIGITS), expected)
        self.runtime.output("-m", "fusec", "bench", self.package, "--runs", "1")
        self.runtime.output("inspect", self.package, program="fusec")
        self.assertIn("bench", self.runtime.output("--help", program="fusec"))

    def test_the_runtime_says_that_it_has_no_compiler(self):
        done = self.runtime.run("python", "-c", f"import fusec; fusec.compile({str(DIGITS / 'digits.onnx')!r})")
        self.assertRegex(done.stderr, "Unsupported: this library runs packages .* Python package fusec")
        done = self.runtime.run("fusec", "compile", DIGITS / "digits.onnx", "-o", self.folder / "none.fsc")
        self.assertEqual(done.returncode, 4)
        self.assertIn("runs, benches, profiles and inspects packages", done.stderr)

    def test_one_adds_to_the_other(self):
        both = Environment(self.folder / "both", "fusec-runtime")
        path = "import fusec; print(fusec._library.PATH)"
        self.assertIn("libfusec-c-runtime.so.0", both.output("-c", path))
        both.pip("install", "--no-index", "--find-links", str(FOLDER), "fusec")
        self.assertIn("libfusec-c.so.0", both.output("-c", path))
        both.pip("uninstall", "--yes", "fusec")
        self.assertEqual(both.output("-c", RUN_PACKAGE, self.package, DIGITS), "358 of 360\n")

    def test_another_protobuf(self):
        """Python's onnx has a protobuf and the descriptors of ONNX of its own."""
        use = f"""
path = {str(DIGITS / 'digits.onnx')!r}
for _ in range(2):
    onnx.checker.check_model(onnx.load(path))
    fusec.compile(path)
"""
        for order in "import onnx, fusec", "import fusec, onnx":
            self.full.output("-c", order + use)
        loaded = self.full.output("-c", "import fusec; fusec.compile(%r); print(open('/proc/self/maps').read())" % str(DIGITS / "digits.onnx"))
        self.assertIn("libfusec-c.so.0", loaded)
        for library in "libprotobuf", "libgomp", "libsqlite3":
            self.assertNotIn(library, loaded)

    def test_import_time(self):
        for name, environment in ("fusec", self.full), ("fusec-runtime", self.runtime):
            took = min(float(environment.output("-c", IMPORT_TIME)) for _ in range(6))
            print(f"import fusec, after numpy, of the wheel {name}: {took * 1e3:.1f} ms", flush=True)


unittest.main(argv=sys.argv[:1])
