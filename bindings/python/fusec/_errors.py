# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each error code of the library."""


class Error(Exception):
    """What a call of fusec failed with. The message is the library's; `code` is its code in fusec/c.h."""

    code = 8


class InvalidModel(Error):
    """The model breaks the ONNX rules, or a package is damaged."""

    code = 1


class Unsupported(Error):
    """fusec lacks something that the model uses; the message names it."""

    code = 2


class InvalidArgument(Error, ValueError):
    """The caller's mistake: an option, a dtype, a shape."""

    code = 3


class DeviceError(Error):
    """A device, driver or library failed or is missing."""

    code = 4


class OutOfMemory(Error, MemoryError):
    """Memory of the host or of a device ran out. The next call may succeed."""

    code = 5


class CompileFailed(Error):
    """A kernel did not compile; the message holds the compiler's log."""

    code = 6


class Internal(Error):
    """A defect of fusec."""

    code = 8


class Cancelled(Error):
    """`progress` ended the call, which can be made again."""

    code = 9


BY_CODE = {c.code: c for c in (InvalidModel, Unsupported, InvalidArgument, DeviceError, OutOfMemory, CompileFailed, Internal, Cancelled)}

for _class in (Error, *BY_CODE.values()):
    _class.__module__ = "fusec"  # as users name it
