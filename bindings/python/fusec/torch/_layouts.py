# SPDX-License-Identifier: Apache-2.0
"""How tensors lie in memory: engines read and write dense row-major memory, and tensors of torch have strides."""
from . import _dims


def _dense_along(shape, stride, order):
    expected = _dims.expression(1)
    for axis in reversed(order):
        extent = _dims.expression(shape[axis])
        if extent != 1 and not _dims.same(stride[axis], expected):
            return False
        expected = expected * extent
    return True


def _hint(extent):
    node = getattr(extent, "node", None)
    return extent if node is None else (node.hint if node.has_hint() else 2)


def memory_order(fake):
    """The axes from the slowest to the fastest where the tensor is dense; None where it has gaps or repeats."""
    return dense_order(tuple(fake.shape), tuple(fake.stride()))


def dense_order(shape, stride):
    plain = list(range(len(shape)))
    if _dense_along(shape, stride, plain):
        return plain
    order = sorted(plain, key=lambda axis: (-_hint(stride[axis]), axis))
    return order if _dense_along(shape, stride, order) else None


def inverse(perm):
    out = [0] * len(perm)
    for to, axis in enumerate(perm):
        out[axis] = to
    return out


def dense_strides(shape, order):
    """Strides in elements of a dense tensor whose axes lie in memory in this order."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
