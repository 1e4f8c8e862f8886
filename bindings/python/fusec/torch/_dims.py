# SPDX-License-Identifier: Apache-2.0
"""Extents of torch (numbers, SymInts, sympy expressions) as text that fusec and Python both read."""
import sympy

from ._refused import Refused


def expression(extent):
    """The sympy expression of an int, a SymInt or an expression."""
    node = getattr(extent, "node", None)
    return sympy.sympify(node.expr if node is not None else extent)


def is_symbolic(extent):
    return not isinstance(extent, int) and not expression(extent).is_number


def same(a, b):
    """Whether two extents are equal for all values of their symbols, as far as sympy sees."""
    return bool(sympy.expand(expression(a) - expression(b)) == 0)


def symbols(extents):
    """The names of all symbols, sorted."""
    return sorted({str(s) for e in extents if is_symbolic(e) for s in expression(e).free_symbols})


def affine(extent):
    """(symbol, a, b) of the extent a * symbol + b with numbers a > 0 and b; None for others."""
    e = expression(extent)
    if len(e.free_symbols) != 1:
        return None
    (symbol,) = e.free_symbols
    if not e.is_polynomial(symbol):
        return None
    factor, rest = e.coeff(symbol, 1), e.subs(symbol, 0)
    if not factor.is_Integer or not rest.is_Integer or factor <= 0 or sympy.expand(factor * symbol + rest - e) != 0:
        return None
    return str(symbol), int(factor), int(rest)


def _call(name, *arguments):
    return f"{name}({','.join(arguments)})"


def _fold(name, arguments):
    out = arguments[0]
    for argument in arguments[1:]:
        out = _call(name, out, argument)
    return out


def _write(e):
    if e.is_Integer:
        return str(int(e))
    if e.is_Symbol:
        return e.name
    if e.is_Add:
        return f"({'+'.join(_write(a) for a in e.args)})"
    if e.is_Mul:
        coefficient, rest = e.as_coeff_Mul()
        if coefficient.is_Rational and not coefficient.is_Integer:  # torch has shown that it divides
            return _call("floordiv", _write(coefficient.p * rest), str(coefficient.q))
        return f"({'*'.join(_write(a) for a in e.args)})"
    if e.is_Pow and e.exp.is_Integer and e.exp > 0:
        return f"({'*'.join([_write(e.base)] * int(e.exp))})"
    name, arguments = type(e).__name__, e.args
    if name in ("FloorDiv", "CleanDiv"):
        return _call("floordiv", *map(_write, arguments))
    if name in ("Mod", "PythonMod"):
        return _call("mod", *map(_write, arguments))
    if name == "ModularIndexing":
        base, divisor, modulus = map(_write, arguments)
        return _call("mod", _call("floordiv", base, divisor), modulus)
    if name in ("Min", "Max"):
        return _fold(name.lower(), [_write(a) for a in arguments])
    if name == "floor":
        numerator, denominator = sympy.fraction(sympy.together(arguments[0]))
        return _call("floordiv", _write(numerator), _write(denominator))
    if name == "Identity":
        return _write(arguments[0])
    raise Refused(f"the extent {e} uses {name}, which extents of fusec lack")


def text(extent):
    """A number, or text such as (2*s0+1)."""
    if isinstance(extent, bool):
        return int(extent)
    if isinstance(extent, int):
        return extent
    e = expression(extent)
    if e.is_Integer:
        return int(e)
    return _write(e)


def texts(extents):
    return [text(e) for e in extents]


PYTHON = {"floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}


def evaluator(extents, names):
    """A function of the values of `names` that answers the tuple of the extents."""
    body = "".join(f"{text(e)}," for e in extents)
    return eval(f"lambda {','.join(names)}: ({body})", dict(PYTHON))  # the text is _write's


def ranges(known, names):
    """{name: (least, most)} of those symbols of which bounds are known; most is None without a bound."""
    found = {}
    for symbol, bounds in known.items():
        if str(symbol) in names:
            least = int(bounds.lower) if bounds.lower.is_Integer else 0
            most = int(bounds.upper) if bounds.upper.is_Integer and bounds.upper < 2**62 else None
            found[str(symbol)] = (max(least, 0), most)
    return found
