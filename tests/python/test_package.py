# SPDX-License-Identifier: Apache-2.0
"""What is around engines: errors, options, the log, where libraries are looked for, the command, the page."""
import logging
import os
import re
import subprocess
import sys
import unittest

import numpy as np

import fusec
from fusec import _errors, _library, _options
from support import DIGITS, PACKAGE, ROOT, TestCase, build, programs, run_python


class Errors(TestCase):
    def test_of_calls(self):
        with self.assertRaisesRegex(fusec.InvalidArgument, "nowhere.onnx"):
            fusec.compile("nowhere.onnx")
        with self.assertRaises(fusec.InvalidModel):
            fusec.compile(b"\x00 no model")
        with self.assertRaisesRegex(fusec.InvalidArgument, "a int is no model"):
            fusec.compile(3)
        if len(fusec.devices()) == 1:
            with self.assertRaises(fusec.DeviceError):
                fusec.compile(DIGITS / "digits.onnx", device="cuda:0")

    def test_unsupported(self):
        # A model of one node "Nothing": ir_version 8, graph {node {output: "y", op_type: "Nothing"}, output y}, opset 17.
        node = b"\x12\x01y\x22\x07Nothing"
        graph = b"\x0a" + bytes([len(node)]) + node + b"\x12\x01g" + b"\x62\x0b\x0a\x01y\x12\x06\x0a\x04\x08\x01\x12\x00"
        model = b"\x08\x08" + b"\x3a" + bytes([len(graph)]) + graph + b"\x42\x04\x0a\x00\x10\x11"
        with self.assertRaisesRegex(fusec.Unsupported, "Nothing"):
            fusec.compile(model)

    def test_each_code_has_a_class(self):
        for code, made in {1: fusec.InvalidModel, 2: fusec.Unsupported, 3: fusec.InvalidArgument, 4: fusec.DeviceError, 5: fusec.OutOfMemory,
                           6: fusec.CompileFailed, 8: fusec.Internal}.items():
            self.assertIs(_errors.BY_CODE[code], made)
            self.assertTrue(issubclass(made, fusec.Error))
        self.assertTrue(issubclass(fusec.OutOfMemory, MemoryError))
        self.assertTrue(issubclass(fusec.InvalidArgument, ValueError))

    def test_compile_limit(self):
        with self.assertRaises(fusec.Error):
            fusec.compile(DIGITS / "digits.onnx", compile_limit=0.000001, no_cache=True)


class Options(TestCase):
    def test_keys(self):
        keys = fusec.option_keys()
        self.assertEqual(keys["tf32"]["used_by"], "compile")
        self.assertIn("no_library", keys)

    def test_unknown_lists_what_there_is(self):
        with self.assertRaisesRegex(fusec.InvalidArgument, "'devise' is no option; the options are: .*device, .*tf32"):
            fusec.compile(DIGITS / "digits.onnx", devise="cpu")
        with self.assertRaisesRegex(fusec.InvalidArgument, "'trust' is no option here: fusec.load takes it"):
            fusec.compile(DIGITS / "digits.onnx", trust=True)

    def test_values(self):
        self.assertEqual(_options._texts("x", [True, 3, 0.5, "a", PACKAGE]), ["true", "3", "0.5", "a", str(PACKAGE)])
        self.assertEqual(_options._texts("x", [np.bool_(False), np.int64(3), np.float64(0.5)]), ["false", "3", "0.5"])
        self.assertEqual(_options._texts("fix", {"n": 8, "m": 2}), ["n=8", "m=2"])
        self.assertIsNone(_options.make({"device": None}))
        with self.assertRaisesRegex(fusec.InvalidArgument, "gpu"):
            fusec.compile(DIGITS / "digits.onnx", device="gpu")
        with self.assertRaisesRegex(fusec.InvalidArgument, "'threads' is a object"):
            fusec.compile(DIGITS / "digits.onnx", threads=object())

    def test_reach_the_engine(self):
        exact = build(["n"], lambda x: x + 1, no_fusion=True, numerics="exact", threads=2)
        np.testing.assert_array_equal(exact(np.zeros(2, np.float32)), [1, 1])

    def test_devices(self):
        self.assertEqual(fusec.devices()[0]["device"], "cpu")
        self.assertRegex(fusec.__version__, r"^\d+\.\d+\.\d+$")


class Log(TestCase):
    def test_warnings_are_logged(self):
        with self.assertLogs("fusec", logging.WARNING) as logs:
            fusec.compile(DIGITS / "digits.onnx", cache_dir="/proc/none")
        self.assertIn("/proc/none", logs.output[0])

    def test_a_handler_that_fails_does_no_harm(self):
        code = ("import fusec, logging\n"
                "class Bad(logging.Handler):\n"
                "    def handle(self, record): raise RuntimeError('bad')\n"
                "logging.getLogger('fusec').addHandler(Bad())\n"
                f"print(fusec.compile({str(DIGITS / 'digits.onnx')!r}, cache_dir='/proc/none').device)")
        status, out, errors = run_python(code)
        self.assertEqual((status, out), (0, "cpu\n"))
        self.assertIn("RuntimeError: bad", errors)


class End(TestCase):
    """The process ends while daemon threads use the library."""

    def end_during(self, before, work):
        code = (f"import fusec, numpy, threading, time\npath = {str(DIGITS / 'digits.onnx')!r}\n{before}\n"
                f"def work():\n    while True: {work}\n"
                "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
                "time.sleep(0.2); print('end')")
        for _ in range(3):
            status, out, errors = run_python(code)
            self.assertEqual((status, out), (0, "end\n"), errors)
            self.assertNotIn("Traceback", errors)

    def test_compiles_that_log(self):
        self.end_during("", "fusec.compile(path, cache_dir='/proc/none')")

    def test_runs(self):
        self.end_during("engine, x = fusec.compile(path), numpy.zeros((2000, 1, 8, 8), 'f4')", "engine(x)")

    def test_runs_on_strides(self):
        self.end_during("engine, x = fusec.compile(path), numpy.zeros((8, 8, 1, 500), 'f4').T", "engine(x)")

    def test_new_sessions(self):
        self.end_during("engine, x = fusec.compile(path), numpy.zeros((2, 1, 8, 8), 'f4')", "engine.session()(x)")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_fork_ends(self):
        code = ("import fusec, os, sys\nfrom fusec import _ending\n_ending._running = 1\nchild = os.fork()\n"
                "if child == 0: sys.exit(3)\n_ending._running = 0\nprint(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))")
        self.assertEqual(run_python(code)[:2], (0, "3\n"))


class Library(TestCase):
    def fails(self, text, **environment):
        status, _, errors = run_python("import fusec", **environment)
        self.assertEqual(status, 1)
        self.assertRegex(errors.splitlines()[-1], text)

    def test_named_but_missing(self):
        self.fails("ImportError: the fusec library was looked for as /none/it.so .the environment variable FUSEC_LIBRARY.*set FUSEC_LIBRARY",
                   FUSEC_LIBRARY="/none/it.so")

    def test_nowhere(self):
        if not os.path.exists(PACKAGE / "lib"):
            self.fails("looked for as libfusec-c.so.0 .the dynamic linker's folders", FUSEC_LIBRARY=None, LD_LIBRARY_PATH="")

    def test_a_folder_and_a_file(self):
        for named in (_library.PATH, os.path.dirname(_library.PATH)):
            self.assertEqual(run_python("import fusec; print(fusec.__version__)", FUSEC_LIBRARY=named)[0], 0)

    def test_beside_the_package(self):
        folder = self.folder()
        (folder / "fusec").symlink_to(PACKAGE)
        copied = self.folder() / "fusec"
        copied.mkdir()
        for file in PACKAGE.glob("*.py"):
            (copied / file.name).write_bytes(file.read_bytes())
        (copied / "lib").symlink_to(os.path.dirname(os.path.realpath(_library.PATH)))
        code = "import fusec; print(fusec._library.PATH)"
        status, out, errors = run_python(code, FUSEC_LIBRARY=None, PYTHONPATH=str(copied.parent))
        self.assertEqual((status, out), (0, f"{copied}/lib/libfusec-c.so.0\n"), errors)

    def test_another_version(self):
        for version, text in (((1 << 16) + 1, "version 1.1 of the C interface, and this package needs 0.x"), (0, f"version 0.0 .* at least {_library.ABI_MINOR}")):
            fake = self.shared_library(self.folder() / "libfake.so", f"unsigned fusec_abi_version(void) {{ return {version}u; }}")
            self.fails(f"ImportError: .*libfake.so has {text}.*same release", FUSEC_LIBRARY=str(fake))

    def test_no_fusec(self):
        fake = self.shared_library(self.folder() / "libfake.so", "int nothing;")
        self.fails("has no function fusec_abi_version", FUSEC_LIBRARY=str(fake))


class NvidiaWheels(TestCase):
    CODE = ("from fusec import _cuda; _cuda.prepare('cpu'); print(len(_cuda.opened()))\n"
            "_cuda.prepare('cuda:0'); print(_cuda.opened().get('nvJitLink'))")

    def run_with(self, site, **environment):
        done = run_python(self.CODE, PYTHONPATH=f"{PACKAGE.parent}:{site}", **{"FUSEC_CUDA_HOME": None, **environment})
        self.assertEqual(done[0], 0, done[2])
        return done[1].splitlines()

    def test_newest_is_opened_for_a_gpu_alone(self):
        site = self.folder()
        self.shared_library(site / "nvidia/nvjitlink/lib/libnvJitLink.so.12", "int a;")
        newest = self.shared_library(site / "nvidia/cu13/lib/libnvJitLink.so.13", "int a;")
        self.assertEqual(self.run_with(site), ["0", str(newest)])
        self.assertEqual(self.run_with(site, FUSEC_CUDA_HOME="/opt/cuda"), ["0", "None"])

    def test_what_is_loaded_already_stays(self):
        site = self.folder()
        self.shared_library(site / "nvidia/cu13/lib/libnvJitLink.so.13", "int a;")
        other = self.shared_library(self.folder() / "libnvJitLink.so.12", "int a;")
        self.assertEqual(self.run_with(site, LD_PRELOAD=str(other)), ["0", "None"])

    def test_a_broken_file_is_skipped(self):
        site = self.folder()
        (site / "nvidia/cu13/lib").mkdir(parents=True)
        (site / "nvidia/cu13/lib/libnvJitLink.so.13").write_text("no library")
        self.assertEqual(self.run_with(site), ["0", "None"])


class Command(TestCase):
    def run_module(self, *arguments, path):
        """With a folder of libraries that has no command beside it."""
        folder = self.folder()
        (folder / "lib").symlink_to(os.path.dirname(os.path.realpath(_library.PATH)))
        return subprocess.run([sys.executable, "-m", "fusec", *arguments], capture_output=True, text=True,
                              env={**os.environ, "PATH": path, "PYTHONPATH": str(PACKAGE.parent), "FUSEC_LIBRARY": str(folder / "lib")})

    def command(self, folder, text):
        folder.mkdir(exist_ok=True)
        (folder / "fusec").write_text(f'#!/bin/sh\necho {text} "$@"\nexit 3\n')
        (folder / "fusec").chmod(0o755)
        return folder

    def test_runs_what_is_on_path(self):
        done = self.run_module("run", "a b", path=str(self.command(self.folder(), "path")))
        self.assertEqual((done.returncode, done.stdout), (3, "path run a b\n"))

    def test_prefers_what_lies_beside_the_library(self):
        path = str(self.command(self.folder(), "path"))
        folder = self.folder()
        (folder / "lib").symlink_to(os.path.dirname(os.path.realpath(_library.PATH)))
        self.command(folder / "bin", "beside")
        for named in folder / "lib", folder / "lib" / "libfusec-c.so.0":
            done = subprocess.run([sys.executable, "-m", "fusec", "run"], capture_output=True, text=True,
                                  env={**os.environ, "PATH": path, "PYTHONPATH": str(PACKAGE.parent), "FUSEC_LIBRARY": str(named)})
            self.assertEqual((done.returncode, done.stdout), (3, "beside run\n"), done.stderr)

    def test_says_what_is_missing(self):
        done = self.run_module("run", path=str(self.folder()))
        self.assertEqual(done.returncode, 1)
        self.assertIn("fusec on PATH", done.stderr)


class Pages(TestCase):
    def test_the_page_prints_what_it_shows(self):
        found = programs("docs/python.md")
        self.assertGreater(len(found), 3)
        for program, shown in found:
            status, output, errors = run_python(program)
            self.assertEqual((status, output), (0, shown), program + errors)

    def test_the_sample(self):
        done = subprocess.run([sys.executable, ROOT / "samples/python/digits.py"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)})
        self.assertEqual((done.returncode, done.stdout), (0, "99.44 % (358 of 360)\n"), done.stderr)
