# SPDX-License-Identifier: Apache-2.0
"""The execution provider of fusec for ONNX Runtime.

    import onnxruntime, onnxruntime_ep_fusec
    onnxruntime.register_execution_provider_library("fusec", onnxruntime_ep_fusec.get_library_path())

docs/onnxruntime.md of the repository explains it."""
import os

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]

_FILE = "libonnxruntime_ep_fusec.so"


def get_library_path():
    """The file for onnxruntime.register_execution_provider_library. The environment variable FUSEC_LIBRARY may name the folder of a
    build that holds it."""
    folder = os.environ.get("FUSEC_LIBRARY") or os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, _FILE)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; install the wheel onnxruntime-ep-fusec, or let FUSEC_LIBRARY name the folder of a build that has it")
    return path


def get_ep_name():
    """The name of the provider in onnxruntime.get_ep_devices(), and in the keys of its options: ep.fusec.KEY."""
    return "fusec"


def get_ep_names():
    """The names of all providers in the library."""
    return [get_ep_name()]
