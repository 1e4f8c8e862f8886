# SPDX-License-Identifier: Apache-2.0
"""jit: a Python function over values as a compiled function over arrays."""
import functools
import inspect
import threading

from . import _engine, _options, _tensor
from ._builder import Builder, Value
from ._errors import InvalidArgument


def jit(function=None, *, shapes=None, **options):
    """Compiles a function of Builder values when it is called with arrays: @fusec.jit, or @fusec.jit(device="cuda:0").

    The function is run once for each set of dtypes and ranks of its arguments, with a symbol for each extent, so that other extents run
    the same code. An extent of 1 stays 1, as it is broadcast, and equal extents are one symbol: a call whose extents differ in this
    respect compiles once more. `shapes` states them instead, which arguments that meet a constant need: shapes={"x": ["n", 64]}. The arguments are
    arrays; arrays that the function takes from outside become constants."""
    if function is None:
        return lambda f: jit(f, shapes=shapes, **options)
    _options.split(options, "compile")
    names = list(inspect.signature(function).parameters)
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    if kinds - {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        raise InvalidArgument(f"{function.__name__} has *, ** or keyword-only parameters; a function for jit has plain ones")
    unknown = sorted(set(shapes or {}) - set(names))
    if unknown:
        raise InvalidArgument(f"shapes names '{unknown[0]}', which is no parameter of {function.__name__}; these are: {', '.join(names)}")
    return functools.wraps(function)(_Jitted(function, names, shapes or {}, options))


class _Jitted:
    """The compiled function. `engines` has the engine of each signature."""

    def __init__(self, function, names, shapes, options):
        self._function, self._names, self._shapes, self._options = function, names, shapes, options
        self._lock = threading.Lock()
        self.engines = {}

    def __call__(self, *inputs, out=None, stream=None, **named):
        if named or len(inputs) != len(self._names):
            bound = inspect.signature(self._function).bind(*inputs, **named)
            inputs = [bound.arguments[name] for name in self._names]
        arguments = [_tensor.look_at(item, f"argument '{name}'") for name, item in zip(self._names, inputs)]
        symbols = {}
        key = tuple((a.dtype, self._shape(name, a.shape, symbols)) for name, a in zip(self._names, arguments))
        engine = self.engines.get(key)
        if engine is None:
            with self._lock:
                engine = self.engines.get(key)
                if engine is None:
                    engine = self.engines[key] = self._compile(key)
        return engine.run(*inputs, out=out, stream=stream)

    def _shape(self, name, shape, symbols):
        if name in self._shapes:
            return tuple(self._shapes[name])
        return tuple(1 if extent == 1 else symbols.setdefault(extent, f"n{len(symbols)}") for extent in shape)

    def _compile(self, key):
        builder = Builder()
        values = [builder.input(name, dtype, shape) for name, (dtype, shape) in zip(self._names, key)]
        try:
            results = self._function(*values)
        except InvalidArgument as fault:
            if "must have one name" not in str(fault):
                raise
            raise InvalidArgument(f"{fault}; state the shapes of {self._function.__name__}, with a number where an extent is fixed, as in "
                                  f"fusec.jit(shapes={{'{self._names[0]}': ['n', 64]}})") from None
        several = isinstance(results, (tuple, list))
        for i, result in enumerate(results if several else [results]):
            if not isinstance(result, Value):
                raise InvalidArgument(f"{self._function.__name__} returned a {type(result).__name__}; a function for jit returns a Value, or a "
                                      "tuple of them")
            builder.output(f"y{i}" if several else "y", result)
        return _engine.compile(builder, **self._options)
