# SPDX-License-Identifier: Apache-2.0
"""From nodes of ATen to ops of a Builder. Handlers are in a table by overload; each answers the Value of its node, or a tuple of them."""
import numbers
import operator

import numpy
import torch
from torch.fx import Node

from .._builder import Builder, Value
from .._errors import InvalidArgument, Unsupported
from . import _dims, _dtypes
from ._refused import Refused

HANDLERS = {}  # {overload: function(lowering, node, *arguments)}
SYMBOLIC = {operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg, torch.sym_max, torch.sym_min,
            torch.sym_int, torch.sym_float, torch.sym_not}


def find_overload(name):
    """The overload of "add.Tensor" in aten, or of "prims.name.default"; None in a torch that lacks it."""
    *space, packet, overload = name.split(".")
    found = getattr(getattr(torch.ops, space[0] if space else "aten"), packet, None)
    return getattr(found, overload, None)


def handles(*names):
    """Puts a handler into the table for these overloads; "relu" stands for relu.default."""
    def register(function):
        for name in names:
            overload = find_overload(name if "." in name else name + ".default")
            if overload is not None:
                HANDLERS[overload] = function
        return function
    return register


def meta(node):
    return node.meta["val"]


def is_compute(node):
    """Whether a node computes tensors: not a getitem, and no arithmetic on extents."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return not isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, numbers.Number))


class Lowering:
    """Builds the nodes of a graph. `values` has the Value of each node, or the tuple of them."""

    def __init__(self, builder=None):
        self.builder = Builder() if builder is None else builder
        self.values = {}

    # --- what handlers ask of a node

    def dtype(self, node, index=None):
        value = meta(node)
        return _dtypes.name((value if index is None else value[index]).dtype)

    def shape(self, node, index=None):
        value = meta(node)
        return _dims.texts((value if index is None else value[index]).shape)

    def fixed(self, item):
        """An argument of a node as numbers. A number that torch left open is fixed by a guard of the compiled function."""
        if isinstance(item, (list, tuple)):
            return [self.fixed(member) for member in item]
        value = meta(item) if isinstance(item, Node) else item
        return int(value) if isinstance(value, (int, torch.SymInt)) else value

    def used(self, node, index):
        """Whether somebody reads this member of a node's results."""
        return any(user.target is operator.getitem and user.args[1] == index for user in node.users)

    # --- small pieces of which handlers are made

    def number(self, dtype, value):
        """A constant of rank 0; integers past 2^53 keep their value."""
        if dtype in ("i64", "u64") and isinstance(value, numbers.Integral) and abs(int(value)) > 2**53:
            return self.builder.constant(numpy.array(int(value), dtype.replace("i", "int").replace("u", "uint")))
        return self.builder.scalar(dtype, float(value))

    def as_value(self, item, dtype):
        """A Value of this dtype: of a Value, of a number, or of an extent."""
        if isinstance(item, Value):
            return item if item.dtype == dtype else self.cast(item, dtype)
        if isinstance(item, str):
            value = self.builder.dim(value=item, dtype="i64")
            return value if dtype == "i64" else self.cast(value, dtype)
        if isinstance(item, numbers.Real):
            return self.number(dtype, item)
        raise Refused(f"an argument is a {type(item).__name__}")

    def cast(self, value, dtype):
        if value.dtype == dtype:
            return value
        if dtype == "bool":
            return self.builder.op("ne", value, self.number(value.dtype, 0))
        if value.dtype[0] == "f" or value.dtype == "bf16":
            if dtype[0] == "u":  # negative numbers wrap, as in torch
                return self.builder.cast(self.builder.cast(value, to="i64"), to=dtype)
        return self.builder.cast(value, to=dtype)

    def reshape(self, value, shape):
        return value if list(value.shape) == list(shape) else self.builder.reshape(value, shape=list(shape))

    def broadcast(self, value, shape):
        return value if list(value.shape) == list(shape) else self.builder.broadcast(value, shape=list(shape))

    def transpose(self, value, perm):
        return value if list(perm) == list(range(len(perm))) else self.builder.transpose(value, perm=list(perm))

    def full(self, dtype, number, shape):
        return self.broadcast(self.as_value(number, dtype), shape)

    def renamed(self, value, old, new, skip=None):
        """A value of extents `old` whose extents are written as in `new`, which ends alike. Torch takes extents to be equal that a guard
        compares; the library takes those to be equal that have one expression."""
        old, new = list(old), list(new)[len(new) - len(old):]
        differs = [i != skip and not (isinstance(a, int) and a == 1) and _dims.is_symbolic(a) and not _dims.same(a, b)
                   for i, (a, b) in enumerate(zip(old, new))]
        if not any(differs):
            return value
        sizes = [_dims.text(b if other else a) for a, b, other in zip(old, new, differs)]
        return self.builder.slice(value, starts=[0] * len(old), sizes=sizes)

    # --- building

    def argument(self, item):
        """What a handler gets for an argument of a node: a Value for a tensor, a number or text for an extent."""
        if isinstance(item, Node):
            if item in self.values:
                return self.values[item]
            value = item.meta.get("val")
            if isinstance(value, (int, torch.SymInt)):
                return _dims.text(value)
            if isinstance(value, float):
                return value
            if isinstance(value, torch.Tensor):
                _dtypes.name(value.dtype)  # raises, which is why it has no Value
            raise Refused(f"{item} is no tensor and no extent")
        if isinstance(item, torch.SymInt):
            return _dims.text(item)
        if isinstance(item, (list, tuple)):
            return [self.argument(member) for member in item]
        return item

    def build(self, node):
        """Builds one node whose arguments are built. Raises Refused."""
        if node.target is operator.getitem:
            made = self.values[node.args[0]][node.args[1]]
            if made is None:
                raise Refused(f"result {node.args[1]} of {node.args[0].target} is not made")
            self.values[node] = made
            return
        handler = HANDLERS.get(node.target)
        if handler is None:
            raise Refused(f"fusec has no {node.target}")
        try:
            arguments = [self.argument(item) for item in node.args]
            named = {name: self.argument(item) for name, item in node.kwargs.items()}
            made = handler(self, node, *arguments, **named)
        except (InvalidArgument, Unsupported) as fault:
            raise Refused(str(fault)) from None
        except Refused:
            raise
        except Exception as fault:  # a mistake of a handler must not fail the whole function
            raise Refused(f"its handler failed: {type(fault).__name__}: {fault}") from fault
        self._check(node, made)
        self.values[node] = made

    def _check(self, node, made):
        """A handler that made another dtype or rank than torch is a mistake of ours: the node then stays with torch."""
        members = zip(made, meta(node)) if isinstance(made, (tuple, list)) else [(made, meta(node))]
        for value, fake in members:
            if value is None or fake is None:
                continue
            if value.dtype != _dtypes.name(fake.dtype) or value.ndim != fake.dim():
                raise Refused(f"{node.target} was made as {value}, and torch has {fake.dtype} of rank {fake.dim()}")
