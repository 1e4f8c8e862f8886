#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Serves models by a Triton Inference Server with the backend of fusec, and checks what it answers.

usage: build/deps/triton/bin/python tests/triton/serve.py [--requests 1000] [--clients 8]
"""
import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
FUSEC = BUILD / "bin" / "fusec"
DIGITS = ROOT / "samples" / "digits"
SETTINGS = argparse.Namespace(requests=1000, clients=8)

# Two inputs of different types, an extent beside the batch that requests may choose up to 8, two outputs.
PAIR = """graph @pair(%x: f32[N, M], %k: i64[N, M]) {
  %0 = cast %k {to = f32}: f32[N, M]
  %1 = mul %x, %0: f32[N, M]
  %2 = add %1, %x: f32[N, M]
  return %1 as "product", %2 as "sum"
}
"""
# No batch: the symbol is in the second extent alone.
PLAIN = """graph @plain(%x: f32[3, N]) {
  %0 = exp %x: f32[3, N]
  return %0 as "y"
}
"""


def server_program():
    import importlib.util
    return Path(importlib.util.find_spec("pytriton").origin).parent / "tritonserver" / "bin" / "tritonserver"


def fusec(*arguments):
    done = subprocess.run([FUSEC, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def page_config():
    """The configuration that docs/triton.md shows."""
    return re.search(r"```protobuf\n(.*?)```", (ROOT / "docs" / "triton.md").read_text(), re.S)[1]


class Repository:
    """A folder of models."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def add(self, name, config='backend: "fusec"\n', onnx=None, graph=None, flags=()):
        """A package of `graph` or of the model `onnx`, or `onnx` itself with flags None."""
        version = self.folder / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(config)
        if graph is not None:
            onnx = self.folder / f"{name}.fir"
            onnx.write_text(graph)
        if flags is None:
            (version / "model.onnx").write_bytes(Path(onnx).read_bytes())
        else:
            fusec("compile", onnx, "-o", version / "model.fsc", *flags)
        return version


class Server:
    """A server on a free port of this machine, which loads what it is told to."""

    def __init__(self, repository, log):
        self.port = free_port()
        self.log = Path(log)
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                [server_program(), "--model-repository", repository, "--backend-directory", BUILD / "triton", "--model-control-mode=explicit",
                 "--http-address=127.0.0.1", f"--http-port={self.port}", "--allow-grpc=false", "--allow-metrics=false"],
                stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "FUSEC_CACHE_DIR": str(Path(repository) / "cache")})
        deadline = time.monotonic() + 120
        while True:
            try:
                with contextlib.closing(self.client()) as client:
                    if client.is_server_ready():
                        break
            except (OSError, InferenceServerException):
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start:\n" + self.log.read_text())
            time.sleep(0.1)

    def client(self):
        return http.InferenceServerClient(f"127.0.0.1:{self.port}", network_timeout=120, connection_timeout=120)

    def stop(self, wait=60):
        """By SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def infer(client, model, inputs, outputs=None):
    """The outputs as a dict."""
    given = []
    for name, array in inputs.items():
        tensor = http.InferInput(name, array.shape, {"float32": "FP32", "int64": "INT64"}[str(array.dtype)])
        tensor.set_data_from_numpy(array)
        given.append(tensor)
    wanted = None if outputs is None else [http.InferRequestedOutput(name) for name in outputs]
    answer = client.infer(model, given, outputs=wanted)
    return {o["name"]: answer.as_numpy(o["name"]) for o in answer.get_response()["outputs"]}


def statistics(client, model):
    (found,) = client.get_inference_statistics(model)["model_stats"]
    return found


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        models = Path(cls.folder.name) / "models"
        cls.repository = Repository(models)
        cls.images = np.load(DIGITS / "images.npy").astype(np.float32)[:, None] / 16
        np.save(models.parent / "images.npy", cls.images)
        version = cls.repository.add("digits", onnx=DIGITS / "digits.onnx", flags=("--batch-invariant", "--range", "N=1:32"))
        fusec("run", DIGITS / "digits.onnx", "--batch-invariant", "--input", f"image=@{models.parent / 'images.npy'}", "--output-dir",
              models.parent / "out")
        cls.expected = np.load(models.parent / "out" / "probabilities.npy")
        cls.package = version / "model.fsc"
        cls.repository.add("digits_onnx", config=page_config(), onnx=DIGITS / "digits.onnx", flags=None)
        cls.repository.add("pair", graph=PAIR, flags=("--range", "M=1:8"))
        cls.repository.add("plain", graph=PLAIN)
        cls.server = Server(models, Path(cls.folder.name) / "server.log")

    @classmethod
    def tearDownClass(cls):
        try:
            status = cls.server.stop()
            log = cls.server.log.read_text()
            if status != 0 or re.search(r"^E\d{4} .*(unload|finalize)", log, re.M | re.I):
                raise AssertionError(f"the server ended with {status}:\n{log}")
        finally:
            cls.folder.cleanup()

    def setUp(self):
        self.client = self.server.client()
        self.addCleanup(self.client.close)  # the server waits for connections when it ends

    def load(self, name):
        self.client.load_model(name)
        return self.client.get_model_config(name)

    def refused(self, config, says, name="bad", **what):
        """Loading a model with this configuration fails with this text."""
        name = f"{name}_{len(list(self.repository.folder.iterdir()))}"
        version = self.repository.folder / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text('backend: "fusec"\n' + config)
        (version / "model.fsc").write_bytes(what.get("package", self.package.read_bytes()))
        with self.assertRaisesRegex(InferenceServerException, says):
            self.client.load_model(name)

    def send(self, model, clients, requests):
        """Requests of 1 to 3 images from several clients at once; the faults."""
        faults = []

        def work(number):
            random = np.random.default_rng(number)
            with contextlib.closing(self.server.client()) as client:
                for _ in range(requests):
                    count = int(random.integers(1, 4))
                    at = int(random.integers(0, len(self.images) - count))
                    got = infer(client, model, {"image": self.images[at:at + count]})["probabilities"]
                    if not np.array_equal(got, self.expected[at:at + count]):
                        faults.append((at, count, np.abs(got - self.expected[at:at + count]).max()))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return faults, time.monotonic() - start

    def test_requests_share_runs_and_have_the_results_of_the_command(self):
        config = self.load("digits")
        self.assertEqual(config["max_batch_size"], 32)
        self.assertIn("dynamic_batching", config)
        self.assertEqual([(i["name"], i["data_type"], i["dims"]) for i in config["input"]], [("image", "TYPE_FP32", [1, 8, 8])])
        self.assertEqual([(o["name"], o["data_type"], o["dims"]) for o in config["output"]], [("probabilities", "TYPE_FP32", [10])])
        faults, seconds = self.send("digits", SETTINGS.clients, SETTINGS.requests)
        self.assertEqual(faults, [])
        found = statistics(self.client, "digits")
        sent = SETTINGS.clients * SETTINGS.requests
        self.assertEqual(found["inference_stats"]["success"]["count"], sent)
        self.assertEqual(found["inference_stats"]["fail"]["count"], 0)
        self.assertLess(found["execution_count"], sent)  # fewer runs than requests
        sizes = [b["batch_size"] for b in found["batch_stats"]]
        self.assertGreater(max(sizes), 3)  # more images than any request has
        print(f"{sent} requests of {SETTINGS.clients} clients in {seconds:.1f} s, {found['execution_count']} runs, batches of {sizes}", flush=True)

    def test_several_instances_of_an_onnx_file(self):
        config = self.load("digits_onnx")
        self.assertEqual((config["max_batch_size"], config["instance_group"][0]["count"]), (16, 2))
        faults, _ = self.send("digits_onnx", 4, max(SETTINGS.requests // 10, 10))
        self.assertEqual(faults, [])
        self.client.unload_model("digits_onnx")
        self.load("digits_onnx")
        self.assertEqual(self.send("digits_onnx", 2, 5)[0], [])

    def test_types_choice_of_outputs_and_extents_of_requests(self):
        config = self.load("pair")
        self.assertEqual([(i["name"], i["data_type"], i["dims"]) for i in config["input"]], [("x", "TYPE_FP32", [-1]), ("k", "TYPE_INT64", [-1])])
        x, k = np.arange(12, dtype=np.float32).reshape(2, 6), np.arange(12).reshape(2, 6)
        both = infer(self.client, "pair", {"x": x, "k": k})
        np.testing.assert_array_equal(both["product"], x * k)
        np.testing.assert_array_equal(both["sum"], x * k + x)
        self.assertEqual(list(infer(self.client, "pair", {"x": x, "k": k}, ["sum"])), ["sum"])

    def test_a_refused_request_leaves_the_others_alone(self):
        self.load("pair")
        wrong, right, results = np.ones((1, 9), np.float32), np.ones((1, 4), np.float32), []

        def work(x):
            with contextlib.closing(self.server.client()) as client:
                for _ in range(50):
                    try:
                        results.append(infer(client, "pair", {"x": x, "k": x.astype(np.int64)})["sum"].shape[1])
                    except InferenceServerException as error:
                        results.append(str(error))

        threads = [threading.Thread(target=work, args=(x,)) for x in (wrong, right, right, wrong)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results.count(4), 100)
        messages = {r for r in results if r != 4}
        self.assertEqual(len(results), 200)
        self.assertTrue(messages and all("M" in m and "8" in m for m in messages), messages)

    def test_a_model_without_a_batch(self):
        config = self.load("plain")
        self.assertEqual((config.get("max_batch_size", 0), config["input"][0]["dims"]), (0, [3, -1]))
        x = np.ones((3, 5), np.float32)
        np.testing.assert_allclose(infer(self.client, "plain", {"x": x})["y"], np.exp(x), rtol=1e-6)

    def test_what_does_not_fit_is_refused_with_our_message(self):
        tensors = ('input [{ name: "image" data_type: TYPE_%s dims: [1, 8, %d] }]\n'
                   'output [{ name: "probabilities" data_type: TYPE_FP32 dims: [10] }]\n')
        self.refused("max_batch_size: 64", "the model allows at most 32")
        self.refused("max_batch_size: 8\n" + tensors % ("FP16", 8), "'image' is TYPE_FP16, and the model's is TYPE_FP32")
        self.refused("max_batch_size: 8\n" + tensors % ("FP32", 9), r"'image' has dims \[1,8,9\], and the model's are \[1,8,8\] beside the batch")
        self.refused('parameters { key: "speed" value { string_value: "high" } }', "parameter 'speed': there is no option 'speed'")
        self.refused('parameters { key: "device" value { string_value: "cuda" } }', "the kind of the instance_group says where a model runs")
        self.refused('default_model_filename: "other.fsc"', "there is no other.fsc in")
        self.refused("", "cut short", package=self.package.read_bytes()[:-100])
        self.refused('parameters { key: "verify-key" value { string_value: "absent.pem" } }', "absent.pem")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=SETTINGS.requests)
    parser.add_argument("--clients", type=int, default=SETTINGS.clients)
    SETTINGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
