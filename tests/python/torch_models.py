#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the models of torch_zoo.py by torch.compile(backend="fusec"), and prints nodes taken, the largest error, recompiles and times.

usage: python3 tests/python/torch_models.py [--models a,b] [--min-share 0.95] [--times] [--rounds 10] [--threads 2]
       [--without-inductor]

Every model runs with all of its sizes, whose axes are dynamic. Exits with 1 where results differ from eager, where torch compiles more
than once, and where more than two models fall below the share."""
import argparse
import logging
import re
import sys
import time

import torch
import torch_zoo

import fusec.torch


class Shares(logging.Handler):
    """The nodes that fusec takes, of all graphs since `clear`."""

    def __init__(self):
        super().__init__()
        self.clear()

    def clear(self):
        self.taken = self.nodes = 0
        self.lines = []

    def emit(self, record):
        line = record.getMessage()
        found = re.search(r"takes (\d+) of (\d+) nodes", line)
        if found:
            self.taken += int(found.group(1))
            self.nodes += int(found.group(2))
            self.lines.append(line)


def tensors(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def settle(module):
    """Gives weights values that let every layer matter: some models begin with zeros."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        if parameter.dim() < 2:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
        elif not parameter.any():
            parameter.data = 0.05 * torch.randn(parameter.shape, generator=generator)
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None  # the mean of what it sees
    return bool(norms)


def largest_error(got, expected):
    """The largest difference as a multiple of what allclose(rtol=1e-3, atol=1e-4 of the largest element) lets pass, and the largest
    difference beside the largest element."""
    worst, most = 0.0, 0.0
    for a, b in zip(tensors(got), tensors(expected)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf"), float("inf")
        difference, scale = (a.double() - b.double()).abs(), b.double().abs().max().item()
        most = max(most, difference.max().item() / scale)
        worst = max(worst, (difference / (1e-4 * scale + 1e-3 * b.double().abs())).max().item())
    return worst, most


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def run(name, shares, options):
    torch.manual_seed(0)
    torch._dynamo.reset()
    shares.clear()
    module, arguments, sizes = torch_zoo.MODELS[name]()
    if settle(module):
        with torch.no_grad():
            for size in sizes * 2:
                module(*arguments(*size))  # in training mode: batch norms take the statistics
    module.eval()
    compiled = torch.compile(module, backend=fusec.torch.backend, options=options)
    with torch.no_grad():
        sets = [arguments(*size) for size in sizes]
        start = time.perf_counter()
        compiled(*sets[0])
        seconds, before = time.perf_counter() - start, graphs()
        worst = [largest_error(compiled(*given), module(*given)) for given in sets]
    return {"module": module, "compiled": compiled, "sets": sets, "seconds": seconds, "recompiles": graphs() - before,
            "worst": max(w for w, _ in worst), "most": max(m for _,
                                                           m in worst), "taken": shares.taken, "nodes": shares.nodes, "lines": shares.lines}


def times(row, rounds, with_inductor):
    """The least ms of a call by eager, Inductor and fusec, which take turns of five calls each, of which the first does not count: threads of
    the one before may still spin. And the seconds of Inductor's compile."""
    given, calls = row["sets"][0], {"eager": row["module"], "fusec": row["compiled"]}
    if with_inductor:
        calls["inductor"] = torch.compile(row["module"])
    start = time.perf_counter()
    with torch.no_grad():
        if with_inductor:
            calls["inductor"](*given)
        seconds = time.perf_counter() - start
        least = dict.fromkeys(calls, float("inf"))
        for _ in range(rounds):
            for name, call in calls.items():
                call(*given)
                for _ in range(4):
                    start = time.perf_counter()
                    call(*given)
                    least[name] = min(least[name], time.perf_counter() - start)
    return {name: ms * 1e3 for name, ms in least.items()}, seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(torch_zoo.MODELS))
    parser.add_argument("--min-share", type=float, default=0.95)
    parser.add_argument("--lenient", action="store_true", help="without options={'strict': True}")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--without-inductor", action="store_true", help="in --times, as its compiles take most of the time")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shares, failed, below = Shares(), [], 0
    logger = logging.getLogger("fusec")
    logger.setLevel(logging.INFO)
    logger.addHandler(shares)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in arguments.models.split(","):
        try:
            row = run(name, shares, {} if arguments.lenient else {"strict": True})
        except Exception as fault:
            print(f"{name}: {type(fault).__name__}: {str(fault)[:1500]}", flush=True)
            failed.append(name)
            continue
        text = (f"{name}: {row['taken']} of {row['nodes']} nodes, error {row['most']:.1e} ({row['worst']:.2f} of the tolerance), "
                f"{row['recompiles']} recompiles, compiled in {row['seconds']:.1f} s")
        if arguments.times:
            ms, seconds = times(row, arguments.rounds, not arguments.without_inductor)
            text += "; ms: " + ", ".join(f"{who} {value:.2f}" for who, value in ms.items())
            text += "" if arguments.without_inductor else f"; inductor compiled in {seconds:.1f} s"
        print(text, flush=True)
        if arguments.verbose:
            print(*row["lines"], sep="\n", flush=True)
        below += row["taken"] < arguments.min_share * row["nodes"]
        if row["worst"] > 1 or row["recompiles"]:
            failed.append(name)
    print(f"failed: {', '.join(failed) or 'none'}; below a share of {arguments.min_share}: {below}")
    return 1 if failed or below > 2 else 0


if __name__ == "__main__":
    sys.exit(main())
