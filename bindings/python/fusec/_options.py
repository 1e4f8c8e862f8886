# SPDX-License-Identifier: Apache-2.0
"""Options as keyword arguments: the keys of fusec_options_set with underscores in place of dashes."""
import functools
import numbers
import os

import numpy

from . import _library
from ._errors import InvalidArgument


@functools.lru_cache(maxsize=None)
def _keys():
    return {key["key"].replace("-", "_"): key for key in _library.read_json("options_keys_json")}


def option_keys():
    """All options: {"device": {"help": ..., "default": ..., "accepts": ..., "used_by": ...}, ...}. "used_by" says who takes it: "compile"
    (compile, load and save), "import" (Model.load_onnx, and compile of an ONNX model), "load" or "write" (save)."""
    return {name: {k: v for k, v in key.items() if k != "key"} for name, key in _keys().items()}


def split(options, *users):
    """One dict for each user. Raises for a name that none of them takes."""
    keys = _keys()
    parts = tuple({} for _ in users)
    for name, value in options.items():
        user = keys[name]["used_by"] if name in keys else None
        if user not in users:
            known = ", ".join(sorted(n for n, key in keys.items() if key["used_by"] in users))
            raise InvalidArgument((f"'{name}' is no option" if user is None else f"'{name}' is no option here: {_WHERE[user]} takes it") +
                                  f"; the options are: {known}")
        parts[users.index(user)][name] = value
    return parts


_WHERE = {"compile": "fusec.compile", "import": "fusec.Model.load_onnx", "load": "fusec.load", "write": "save"}


def _texts(name, value):
    if isinstance(value, (bool, numpy.bool_)):
        return ["true" if value else "false"]
    if isinstance(value, dict):
        return [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(name, item)]
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if isinstance(value, numbers.Integral):
        return [str(int(value))]
    if isinstance(value, numbers.Real):
        return [repr(float(value))]
    raise InvalidArgument(f"option '{name}' is a {type(value).__name__}; an option is text, a number, True or False, a path, or a list of these")


def make(options, progress=None):
    """A handle of the options, or None for no options. None as a value stands for the default. progress: a Progress that they tell."""
    given = {name: value for name, value in options.items() if value is not None}
    if not given and progress is None:
        return None
    handle = _library.Handle("options", _library.make("options_new"))
    for name, value in given.items():
        for text in _texts(name, value):
            _library.call("options_set", handle.value, _keys()[name]["key"].encode(), os.fsencode(text))
    if progress is not None:
        progress.set(handle)
    return handle


def value(handle):
    return None if handle is None else handle.value
