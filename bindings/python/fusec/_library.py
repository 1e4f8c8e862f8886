# SPDX-License-Identifier: Apache-2.0
"""Finds and opens libfusec-c, or libfusec-c-runtime where there is no compiler, checks its version, and declares the functions of
fusec/c.h."""
import ctypes
import json
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p

from . import _ending, _errors
from ._structs import CALL_FUNCTION, Host, ManagedTensor, Tensor

ABI_MAJOR, ABI_MINOR = 0, 4  # of fusec/c.h when this package was written
FILE, RUNTIME_FILE = "libfusec-c.so.0", "libfusec-c-runtime.so.0"


def _in_folder(folder):
    """The library of a folder: that with the compiler, unless the other one is alone there."""
    full, runtime = os.path.join(folder, FILE), os.path.join(folder, RUNTIME_FILE)
    return runtime if os.path.exists(runtime) and not os.path.exists(full) else full


def _candidates():
    """(files, one of which is opened, where that was said): the environment, else the package's folder, else the dynamic linker's."""
    named = os.environ.get("FUSEC_LIBRARY")
    if named:
        return [_in_folder(named) if os.path.isdir(named) else named], "the environment variable FUSEC_LIBRARY"
    beside = _in_folder(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
    if os.path.exists(beside):
        return [beside], "the package's folder"
    return [FILE, RUNTIME_FILE], "the dynamic linker's folders"


def _check_version(library, path):
    try:
        version = ctypes.CFUNCTYPE(c_uint32)(("fusec_abi_version", library))()
    except AttributeError:
        raise ImportError(f"{path} has no function fusec_abi_version: it is not libfusec-c; set FUSEC_LIBRARY to {FILE}") from None
    major, minor = version >> 16, version & 0xFFFF
    if major != ABI_MAJOR or minor < ABI_MINOR:
        raise ImportError(f"{path} has version {major}.{minor} of the C interface, and this package needs {ABI_MAJOR}.x with x at least "
                          f"{ABI_MINOR}; install the fusec library and the fusec package of the same release")


def _open():
    paths, where = _candidates()
    faults = []
    for path in paths:
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as fault:
            faults.append(fault)
            continue
        _check_version(library, path)
        return library, path
    raise ImportError(f"the fusec library was looked for as {paths[0]} ({where}) and did not load: {faults[0]}; install the fusec wheel, or set "
                      f"FUSEC_LIBRARY to the file {FILE} of a build") from None


LIB, PATH = _open()

_ERROR = c_void_p  # fusec_error*
_OUT_TEXT = POINTER(c_void_p)
LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)

_FUNCTIONS = {  # name: (result, parameters)
    "version": (c_char_p, []),
    "error_code": (c_int, [c_void_p]),
    "error_message": (c_char_p, [c_void_p]),
    "error_free": (None, [c_void_p]),
    "set_log": (None, [c_void_p, c_void_p]),
    "free": (None, [c_void_p]),
    "devices_json": (_ERROR, [_OUT_TEXT]),
    "options_new": (_ERROR, [POINTER(c_void_p)]),
    "options_set": (_ERROR, [c_void_p, c_char_p, c_char_p]),
    "options_free": (None, [c_void_p]),
    "options_set_host": (_ERROR, [c_void_p, POINTER(Host)]),
    "register_call": (_ERROR, [c_char_p, c_char_p, CALL_FUNCTION, c_void_p]),
    "options_keys_json": (_ERROR, [_OUT_TEXT]),
    "model_load_onnx": (_ERROR, [c_char_p, c_void_p, POINTER(c_void_p)]),
    "model_load_onnx_bytes": (_ERROR, [c_void_p, c_size_t, POINTER(c_char_p), POINTER(Tensor), c_size_t, c_void_p, POINTER(c_void_p)]),
    "model_io_json": (_ERROR, [c_void_p, _OUT_TEXT]),
    "model_free": (None, [c_void_p]),
    "compile_package": (_ERROR, [c_void_p, POINTER(c_char_p), c_size_t, c_char_p, c_void_p]),
    "builder_new": (_ERROR, [POINTER(c_void_p)]),
    "builder_free": (None, [c_void_p]),
    "builder_input": (_ERROR, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(c_int32)]),
    "builder_range": (_ERROR, [c_void_p, c_char_p, c_int64, c_int64]),
    "builder_scalar": (_ERROR, [c_void_p, c_char_p, c_double, POINTER(c_int32)]),
    "builder_constant": (_ERROR, [c_void_p, POINTER(Tensor), POINTER(c_int32)]),
    "builder_weight": (_ERROR, [c_void_p, c_char_p, POINTER(Tensor), POINTER(c_int32)]),
    "builder_constant_managed": (_ERROR, [c_void_p, POINTER(ManagedTensor), POINTER(c_int32)]),
    "builder_op": (_ERROR, [c_void_p, c_char_p, POINTER(c_int32), c_size_t, c_char_p, POINTER(c_int32)]),
    "builder_gradients": (_ERROR, [c_void_p, c_int32, c_int32, POINTER(c_int32), c_size_t, POINTER(c_int32)]),
    "builder_ops_json": (_ERROR, [_OUT_TEXT]),
    "builder_value_json": (_ERROR, [c_void_p, c_int32, _OUT_TEXT]),
    "builder_output": (_ERROR, [c_void_p, c_char_p, c_int32]),
    "builder_finish": (_ERROR, [c_void_p, POINTER(c_void_p)]),
    "engine_compile": (_ERROR, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "engine_load": (_ERROR, [c_char_p, c_void_p, POINTER(c_void_p)]),
    "engine_load_bytes": (_ERROR, [c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "engine_free": (None, [c_void_p]),
    "engine_io_json": (_ERROR, [c_void_p, _OUT_TEXT]),
    "engine_stats_json": (_ERROR, [c_void_p, _OUT_TEXT]),
    "engine_weights_json": (_ERROR, [c_void_p, _OUT_TEXT]),
    "engine_set_weight": (_ERROR, [c_void_p, c_char_p, POINTER(Tensor)]),
    "session_new": (_ERROR, [c_void_p, POINTER(c_void_p)]),
    "session_free": (None, [c_void_p]),
    "session_output_shapes": (_ERROR, [c_void_p, c_void_p, c_void_p]),
    "session_prepare": (_ERROR, [c_void_p, c_void_p]),
    "session_profile_json": (_ERROR, [c_void_p, POINTER(Tensor), c_size_t, c_int64, _OUT_TEXT]),
    "session_run": (_ERROR, [c_void_p, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t]),
    "session_run_async": (_ERROR, [c_void_p, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t, c_void_p]),
    "session_run_raw": (_ERROR, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
}
for _name, (_result, _parameters) in _FUNCTIONS.items():
    _function = getattr(LIB, "fusec_" + _name)
    _function.restype, _function.argtypes = _result, _parameters


def function(name):
    return getattr(LIB, "fusec_" + name)


def raise_error(error):
    """Frees the error and raises the exception of its code."""
    code, message = function("error_code")(error), function("error_message")(error).decode(errors="replace")
    function("error_free")(error)
    raise _errors.BY_CODE.get(code, _errors.Error)(message)


def call(name, *arguments):
    with _ending.CALL:
        error = function(name)(*arguments)
    if error:
        raise_error(error)


def make(name, *arguments):
    """What a function answers by its last parameter, a handle."""
    out = c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return out.value


def read_json(name, *arguments):
    text = make(name, *arguments)
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        function("free")(text)


class Handle:
    """Owns a handle of the library. It is not freed when the process ends: a thread may still use it then. `keep` is what must live as
    long, such as memory that the handle borrows."""

    __slots__ = ("value", "keep", "_free", "__weakref__")

    def __init__(self, kind, value, keep=None):
        self._free = function(kind + "_free")
        self.value, self.keep = value, keep

    def __del__(self):
        self._free(self.value)


def version():
    return function("version")().decode()
