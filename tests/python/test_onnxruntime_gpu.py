# SPDX-License-Identifier: Apache-2.0
"""The execution provider for ONNX Runtime on GPUs: onnxruntime_gpu.py on the card of this machine, and with a driver that has its memory on
the host (tests/fake_cuda), which counts what is called and what is left."""
import re
import subprocess
import sys
import unittest

from support import ROOT, needs_fake_cuda, run_with_fake_cuda

try:
    import onnxruntime  # noqa: F401
except ImportError:
    raise unittest.SkipTest("ONNX Runtime is not installed; ./dev setup --python installs it") from None

SCRIPT = ROOT / "tests" / "python" / "onnxruntime_gpu.py"
START = """
import ctypes, gc, sys
sys.path.insert(0, %r)
from onnxruntime_gpu import *
library = ctypes.CDLL("libcuda.so.1")
library.fake_cuda_count.restype = ctypes.c_long
def count(what): return library.fake_cuda_count(what.encode())
def refusal(*arguments, **keywords):
    try: return str(open_session(*arguments, **keywords))
    except Exception as error: return str(error)
register()
""" % str(SCRIPT.parent)


class Card(unittest.TestCase):
    def test_all(self):
        done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, cwd=ROOT)
        out = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, out)
        if "cuda:0" not in out.splitlines()[0]:
            self.skipTest("there is no GPU that the provider can use")


@needs_fake_cuda
class Fake(unittest.TestCase):
    def check(self, code, want, gpus=1, fail=None):
        status, out = run_with_fake_cuda(["-c", START + code], gpus, fail)
        self.assertEqual(status, 0, out)
        self.assertEqual(out.splitlines(), want.split("\n"))

    def matches(self, code, pattern, gpus=1, fail=None):
        status, out = run_with_fake_cuda(["-c", START + code], gpus, fail)
        self.assertEqual(status, 0, out)
        self.assertRegex(out, pattern)

    def test_all(self):
        for gpus in 1, 2:
            self.matches("""
print("devices:", *devices())
done = unittest.main("onnxruntime_gpu", argv=["fake"], exit=False).result
print("good:", done.wasSuccessful(), done.testsRun > 15, "skipped:", [why for _, why in done.skipped if "no GPU" in why], "strays:", count("strays"),
      "non-blocking:", count("non-blocking"))  # copies without a stream rely on blocking ones
""", "(?s)devices: cpu " + " ".join(f"cuda:{ordinal}" for ordinal in range(gpus)) + r"\n.*good: True True skipped: \[\] strays: 0 non-blocking: 0", gpus)

    def test_devices(self):
        self.check("""
for name, device in devices().items():
    infos = [] if name == "cpu" else [device.memory_info(kind) for kind in (ort.OrtDeviceMemoryType.DEFAULT, ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)]
    print(name, device.ep_metadata.get("gpu"), [(info.name, info.device_id, info.device_vendor_id == NVIDIA) for info in infos])
""", """cpu None []
cuda:0 Fake 0 [('fusec_cuda', 0, True), ('fusec_cuda_pinned', 0, True)]
cuda:1 Fake 1 [('fusec_cuda', 1, True), ('fusec_cuda_pinned', 1, True)]""", gpus=2)

    def test_hardware(self):
        """ONNX Runtime has not found the GPU; releases that take new hardware list it as a GPU of NVIDIA."""
        self.check("""
hardware = devices("cuda:0")[0].device
new = VERSION >= (1, 24)
print(hardware.type == (ort.OrtHardwareDeviceType.GPU if new else ort.OrtHardwareDeviceType.CPU), not new or hardware.vendor_id == NVIDIA)
""", "True True")

    def test_nothing_is_left(self):
        self.check("""
value = on_gpu(floats(300, 200))
session, split = open_session(mlp()), open_session(split_model())
for n in 3, 5, 3:
    session.run(None, {"x": floats(n, 64)})
    split.run(None, {"x": floats(n, 8)})
stream = devices("cuda:0")[0].create_sync_stream()
print(count("live memory") > 0, count("live streams") > 1, count("live events") > 0, count("live contexts"))
del value, session, split, stream
gc.collect()
ort.unregister_execution_provider_library("fusec")
print([count("live " + kind) for kind in ("memory", "pinned", "streams", "events", "contexts")])
""", "True True True 1\n[0, 0, 0, 0, 0]")

    def test_bound_memory_is_not_copied(self):
        self.check("""
session = open_session(mlp(), strict=1)
x, y = on_gpu(floats(4, 64)), room_on_gpu(4, 48)
bound(session, {"x": x}, {"y": y})
before = [count("copies " + kind) for kind in ("to gpu", "to host", "inside")], count("calls cuMemAlloc"), count("runs")
for _ in range(5): bound(session, {"x": x}, {"y": y})
after = [count("copies " + kind) for kind in ("to gpu", "to host", "inside")], count("calls cuMemAlloc"), count("runs")
print(before[:2] == after[:2], after[2] - before[2], count("strays"))
""", "True 5 0")

    def test_a_run_reads_the_memory_of_its_gpu_alone(self):
        """What a node of the CPU made comes on the host, and is copied."""
        self.check("""
session = open_session(split_model())
for n in 3, 8: session.run(None, {"x": floats(n, 8)})
print(count("runs"), count("strays"))
""", "4 0")

    def test_memory_is_used_again(self):
        self.check("""
session = open_session(split_model())
x, y, r = on_gpu(floats(7, 8)), room_on_gpu(7), room_on_gpu(7)
for _ in range(3): bound(session, {"x": x}, {"y": y, "r": r})
before = count("calls cuMemAlloc"), count("live memory"), count("live events")
for _ in range(10): bound(session, {"x": x}, {"y": y, "r": r})
print(before == (count("calls cuMemAlloc"), count("live memory"), count("live events")))
""", "True")

    def test_memory_that_is_kept_is_bounded(self):
        self.check("""
for n in range(1, 400): on_gpu(np.zeros(n << 18, np.float32) if n < 8 else np.zeros(n << 8, np.float32))
print(count("live memory") < 40, count("calls cuMemFree") > 0)
""", "True True")

    def test_memory_of_another_stream_is_waited_for(self):
        self.check("""
first, second = open_session(mlp()), open_session(mlp())
x = on_gpu(floats(5, 64))
for session in first, second, first: bind_and_run(session, x)  # each frees its output
gc.collect()
before = count("calls cuMemAlloc"), count("calls cuStreamWaitEvent"), count("calls cuEventSynchronize")
for _ in range(4):
    for session in first, second: bind_and_run(session, x)
after = count("calls cuMemAlloc"), count("calls cuStreamWaitEvent"), count("calls cuEventSynchronize")
print([b - a for a, b in zip(before, after)])
""", "[0, 7, 0]")

    def test_weights_are_not_uploaded_by_onnxruntime(self):
        self.check("""
before = count("copies to gpu")
session = open_session(mlp())
print(count("copies to gpu") - before)
""", "0")

    def test_second_gpu(self):
        self.check("""
value = on_gpu(floats(3, 4), ordinal=1)
session = open_session(mlp(), "cuda:1")
y = room_on_gpu(2, 48, ordinal=1)
bound(session, {"x": on_gpu(floats(2, 64), ordinal=1)}, {"y": y})
print(np.allclose(y.numpy(), reference(mlp(), {"x": floats(2, 64)})[0], atol=1e-5), count("live contexts"))
try: ort.copy_tensors([value], [room_on_gpu(3, 4)])
except Exception as error: print("refused")
""", "True 1\nrefused", gpus=2)

    def test_program_of_the_page(self):
        (program,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "onnxruntime.md").read_text(), re.S)
        self.check("""
import onnxruntime, numpy
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
Path("model.onnx").write_bytes(mlp(10))
data, options = floats(8, 64), ort.SessionOptions()
""" + program + """
print(np.allclose(y.numpy(), reference(mlp(10), {"x": data})[0], atol=1e-5))
""", "True")

    def test_without_a_gpu(self):
        self.check("""print(list(devices()), open_session(mlp(), "cpu").run(None, {"x": floats(2, 64)})[0].shape)""", "['cpu'] (2, 48)", gpus=0)

    def test_driver_that_fails(self):
        self.check("print(list(devices()))", "['cpu']", fail="cuInit")
        for call, text in (("cuStreamCreate", "cuStreamCreate: CUDA_ERROR_OF_THE_FAKE"), ("cuMemcpyAsync", "cuMemcpyAsync: CUDA_ERROR_OF_THE_FAKE"),
                           ("cuStreamSynchronize", "cuStreamSynchronize: CUDA_ERROR_OF_THE_FAKE")):
            self.matches("""
def attempt():
    session = open_session(mlp())
    bound(session, {"x": on_gpu(floats(2, 64))}, {"y": room_on_gpu(2, 48)})
try: attempt(); print("no error")
except Exception as error: print(error)
""", text, fail=call)

    def test_memory_that_is_not_there(self):
        self.matches("""
try: on_gpu(floats(2, 64)); print("no error")
except Exception as error: print(error)
""", "fusec: there is no memory left on cuda:0", fail="cuMemAlloc")
        self.matches("""
session = open_session(mlp())
def attempt(n):
    x = on_gpu(floats(n, 64))
    if n > 2: os.environ["FUSEC_FAKE_FAIL"] = "cuMemAlloc"
    bind_and_run(session, x)
attempt(2)
try: attempt(2000); print("no error")
except Exception as error: print(error)
""", "fusec: there is no memory left on cuda:0 for output 'y'")


if __name__ == "__main__":
    unittest.main()
