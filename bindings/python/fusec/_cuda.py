# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries in the wheels of this Python, and the order of work on a GPU."""
import contextlib
import ctypes
import glob
import os
import sys

from ._errors import DeviceError

# As ir/support/shared_library.h has them: names, and versions from new to old.
LIBRARIES = {"nvrtc": (13, 12), "nvJitLink": (13, 12), "cublasLt": (13, 12), "cudnn": (9,)}
_opened = {}


def _is_loaded(file):
    try:
        ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return True


def find(name):
    """The newest file of a library in the nvidia wheels on sys.path, or None."""
    folders = [os.path.abspath(entry) for entry in sys.path if entry]
    for version in LIBRARIES[name]:
        for folder in folders:
            for file in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", f"lib{name}.so.{version}"))):
                return file
    return None


def open_wheels():
    """Opens what the wheels have and the process has not: the library asks first for what is loaded."""
    if os.environ.get("FUSEC_CUDA_HOME"):  # the user's choice goes first
        return
    for name, versions in LIBRARIES.items():
        if name in _opened or any(_is_loaded(f"lib{name}.so.{version}") for version in versions):
            continue
        file = find(name)
        if file is None:
            continue
        try:
            _opened[name] = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError:
            pass  # the library goes on looking, and says what it lacks


def opened():
    """{name: file} of what open_wheels opened."""
    return {name: library._name for name, library in _opened.items()}


def prepare(*devices):
    if any(str(device).startswith("cuda") for device in devices):
        open_wheels()


_LEGACY_STREAM = 1  # CU_STREAM_LEGACY
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_devices = {}  # by ordinal
_contexts = {}  # of each GPU, its primary context, which is kept: the producer of the tensor has it, too


def _check(status, function):
    if status != 0:
        raise DeviceError(f"waiting for the work on a GPU tensor failed: {function} answered {status}")


def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as fault:
        raise DeviceError(f"a tensor lies on a GPU, but the driver does not load: {fault}") from None


def device(ordinal):
    """The driver's handle of a GPU whose context was made."""
    return _devices[ordinal]


def context(driver, ordinal):
    if ordinal not in _contexts:
        handle, made = ctypes.c_int(), ctypes.c_void_p()
        _check(driver.cuInit(0), "cuInit")
        _check(driver.cuDeviceGet(ctypes.byref(handle), ordinal), "cuDeviceGet")
        _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(made), handle), "cuDevicePrimaryCtxRetain")
        _devices[ordinal], _contexts[ordinal] = handle.value, made
    return _contexts[ordinal]


def wait_for_default_stream(ordinal):
    """Waits for the legacy default stream of a GPU, which waits for the producer of a tensor."""
    library = driver()
    _check(library.cuCtxPushCurrent_v2(context(library, ordinal)), "cuCtxPushCurrent")
    status = library.cuStreamSynchronize(ctypes.c_void_p(_LEGACY_STREAM))
    library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    _check(status, "cuStreamSynchronize")


@contextlib.contextmanager
def capture_relaxed():
    """While a stream is captured, this thread may allocate memory and wait for other streams."""
    library, mode = driver(), ctypes.c_int(RELAXED)
    _check(library.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)), "cuThreadExchangeStreamCaptureMode")
    try:
        yield
    finally:
        library.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
