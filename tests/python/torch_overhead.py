#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what a call of a compiled function costs beside the run of the engine. With --max-us it exits with 1 above that, which says
something only on a machine that does nothing else.

usage: python3 tests/python/torch_overhead.py [--max-us 10]"""
import argparse
import sys
import time

import torch

from fusec import _library
from fusec.torch import _run, backend


def least(call, rounds=400, calls=50):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


class Ten(torch.nn.Module):
    """Four weights, four inputs, two results."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(8)) for _ in range(4)])

    def forward(self, a, b, c, d):
        w = self.weights
        return a * w[0] + b * w[1], c * w[2] + d * w[3]


def raw_call(runner, plan):
    """The call of the library alone, with what the last run gave it."""
    handle = runner._local.session.handle.value
    return lambda: _run._run_raw(handle, plan.extents_at, plan.inputs_at, plan.outputs_at, None)


def measure(dynamic):
    torch._dynamo.reset()
    runners = []
    original = _run.Runner.__init__

    def noted(self, *arguments):
        original(self, *arguments)
        runners.append(self)

    _run.Runner.__init__ = noted
    compiled = torch.compile(Ten(), backend=backend, options={"strict": True, "threads": 1}, dynamic=dynamic)
    empty = torch.compile(Ten(), backend=lambda module, inputs: lambda *tensors: (inputs[-1], inputs[-1]), dynamic=dynamic)
    given = [torch.randn(4, 8) for _ in range(4)]
    with torch.no_grad():
        compiled(*given)
        empty(*given)
        _run.Runner.__init__ = original
        (runner,) = runners
        plan = next(iter(runner._local.session.plans.values()))
        whole, alone = least(lambda: compiled(*given)), least(lambda: empty(*given))
        results = compiled(*given)  # the memory that the plan points to
        library = least(raw_call(runner, plan))
        del results
    return {"whole": whole, "library": library, "torch": alone}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-us", type=float, default=float("inf"))
    most = parser.parse_args().max_us
    worst = 0
    for dynamic in (False, True):
        t = measure(dynamic)
        ours = t["whole"] - t["library"] - t["torch"]
        worst = max(worst, ours)
        print(f"10 tensors, {'a symbol' if dynamic else 'fixed sizes'}: a call {t['whole']:.1f} us = {t['library']:.1f} in the library + {t['torch']:.1f} "
              f"of torch with an empty backend + {ours:.1f} between them")
    return 0 if worst < most else 1


if __name__ == "__main__":
    assert _library.version()
    sys.exit(main())
