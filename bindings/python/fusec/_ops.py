# SPDX-License-Identifier: Apache-2.0
"""The ops of the library as methods. _ops.pyi lists them for editors; write_ops.py makes it."""
from . import _library

OPS = _library.read_json("builder_ops_json")


class BuilderOps:
    """Builder.softmax(x, axis=-1): one method for each op."""

    __slots__ = ("__weakref__",)


class ValueOps:
    """x.softmax(axis=-1): one method for each op with arguments."""

    __slots__ = ()


def _describe(op):
    attributes = ", ".join(a["name"] + ("" if a["required"] else " (optional)") for a in op["attributes"])
    most = "any number of" if op["max_args"] < 0 else op["max_args"]
    arguments = f"{op['min_args']}" if op["min_args"] == op["max_args"] else f"{op['min_args']} to {most}"
    return f"{op['op']}: {arguments} arguments" + (f"; attributes: {attributes}" if attributes else "")


def _add_methods(op):
    name = op["op"]

    def of_builder(self, *arguments, **attributes):
        return self.op(name, *arguments, **attributes)

    def of_value(self, *arguments, **attributes):
        return self.builder.op(name, self, *arguments, **attributes)

    for function, owner in ((of_builder, BuilderOps), (of_value, ValueOps)):
        function.__name__, function.__qualname__, function.__doc__ = name, f"{owner.__name__}.{name}", _describe(op)
        if owner is BuilderOps or op["min_args"] > 0 or op["max_args"] < 0:
            setattr(owner, name, function)


for _op in OPS:
    _add_methods(_op)
