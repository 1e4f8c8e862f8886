# SPDX-License-Identifier: Apache-2.0
"""What torch takes apart before fusec sees it: all that torch can, but for what has a handler."""
import functools

from torch._decomp import core_aten_decompositions

from . import _moves, _network, _pointwise, _reduce, _select
from ._lowering import HANDLERS

REGISTERED = (_moves, _network, _pointwise, _reduce, _select)


@functools.lru_cache(maxsize=None)
def table():
    return {overload: function for overload, function in core_aten_decompositions().items() if overload not in HANDLERS}
