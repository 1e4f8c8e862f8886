#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the models of torch_zoo.py by torch.compile(backend="fusec"), and prints nodes taken, the largest error, recompiles and times.

usage: python3 tests/python/torch_models.py [--models a,b] [--min-share 0.95] [--times] [--rounds 10] [--threads 2]
       [--without-inductor] [--static] [--device cuda] [--jobs 10] [--limit 120]

Every model runs with all of its sizes, whose axes are dynamic; with --static, with its first one, which is fixed. Exits with 1 where results differ from eager, where torch compiles more
than once, and where more than two models fall below the share. --jobs compiles so many models at a time, each in a process of its own,
which are timed one after the other once all of them have compiled or --limit seconds are over. In f32, without TF32."""
import argparse
import logging
import re
import selectors
import subprocess
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
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
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


def run(name, shares, options, most_sizes):
    torch.manual_seed(0)
    torch._dynamo.reset()
    shares.clear()
    module, arguments, sizes = torch_zoo.MODELS[name]()
    sizes = sizes[:most_sizes]
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
    return {"module": module, "calls": {"eager": module, "fusec": compiled}, "sets": sets, "seconds": seconds, "recompiles": graphs() - before,
            "worst": max(w for w, _ in worst), "most": max(m for _, m in worst), "taken": shares.taken, "nodes": shares.nodes,
            "lines": shares.lines}


def wait():
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()


def with_inductor(row, modes):
    """Adds the calls of torch.compile's own modes, compiled; answers the seconds that they took."""
    start = time.perf_counter()
    with torch.no_grad():
        for mode in modes:
            call = torch.compile(row["module"], mode=mode)
            for _ in range(3):  # a mode with graphs captures in the second call
                call(*row["sets"][0])
            row["calls"]["inductor" if mode == "default" else mode] = call
    wait()
    return time.perf_counter() - start


def times(row, rounds):
    """The least ms of each call, which take turns of five calls each, of which the first does not count: threads of the one before may
    still spin."""
    given, least = row["sets"][0], dict.fromkeys(row["calls"], float("inf"))
    with torch.no_grad():
        for _ in range(rounds):
            for name, call in row["calls"].items():
                call(*given)
                for _ in range(4):
                    wait()
                    start = time.perf_counter()
                    call(*given)
                    wait()
                    least[name] = min(least[name], time.perf_counter() - start)
    return {name: ms * 1e3 for name, ms in least.items()}


def in_processes(arguments, names):
    """Answers the models that failed, and how many fell below the share."""
    failed, below = [], 0
    for first in range(0, len(names), arguments.jobs):
        running = {}
        for name in names[first: first + arguments.jobs]:
            command = [sys.executable, *sys.argv, "--models", name, "--jobs", "0"]
            running[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lines = first_lines(running, arguments.limit)
        for name, process in running.items():
            if name not in lines:
                process.kill()
                print(f"{name}: not compiled in {arguments.limit} s", flush=True)
            text = lines.get(name, "") + process.communicate("go\n")[0]
            for line in text.splitlines():
                if line != "compiled" and not line.startswith("failed: "):
                    print(line, flush=True)
                below += line.endswith(f"below a share of {arguments.min_share}: 1")
            if process.returncode:
                failed.append(name)
    return failed, below


def first_lines(running, limit):
    """{name: "compiled", or what failed} of the processes that print one in time."""
    lines, end = {}, time.monotonic() + limit
    with selectors.DefaultSelector() as waiting:
        for name, process in running.items():
            waiting.register(process.stdout, selectors.EVENT_READ, name)
        while waiting.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                lines[key.data] = key.fileobj.readline()
                waiting.unregister(key.fileobj)
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(torch_zoo.MODELS))
    parser.add_argument("--min-share", type=float, default=0.95)
    parser.add_argument("--lenient", action="store_true", help="without options={'strict': True}")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--without-inductor", action="store_true", help="in --times, as its compiles take most of the time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_default_device(arguments.device)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    names = arguments.models.split(",")
    if arguments.static:
        torch_zoo.dynamic = lambda tensor, *axes: tensor
    if arguments.jobs != 0:
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    if arguments.jobs:
        return finish(arguments, *in_processes(arguments, names))
    modes = [] if arguments.without_inductor else ["default"] + ["reduce-overhead"] * (arguments.device == "cuda")
    shares, failed, below = Shares(), [], 0
    logger = logging.getLogger("fusec")
    logger.setLevel(logging.INFO)
    logger.addHandler(shares)
    for name in names:
        try:
            row = run(name, shares, {} if arguments.lenient else {"strict": True}, 1 if arguments.static else None)
            seconds = with_inductor(row, modes) if arguments.times else 0
        except Exception as fault:
            print(f"{name}: {type(fault).__name__}: {str(fault)[:1500]}", flush=True)
            failed.append(name)
            continue
        if arguments.jobs == 0:  # in_processes answers when all have compiled
            print("compiled", flush=True)
            sys.stdin.readline()
        text = (f"{name}: {row['taken']} of {row['nodes']} nodes, error {row['most']:.1e} ({row['worst']:.2f} of the tolerance), "
                f"{row['recompiles']} recompiles, compiled in {row['seconds']:.1f} s")
        if arguments.times:
            text += "; ms: " + ", ".join(f"{who} {value:.3f}" for who, value in times(row, arguments.rounds).items())
            text += f"; inductor compiled in {seconds:.1f} s" if modes else ""
        print(text, flush=True)
        if arguments.verbose:
            print(*row["lines"], sep="\n", flush=True)
        below += row["taken"] < arguments.min_share * row["nodes"]
        if row["worst"] > 1 or row["recompiles"]:
            failed.append(name)
    return finish(arguments, failed, below)


def finish(arguments, failed, below):
    print(f"failed: {', '.join(failed) or 'none'}; below a share of {arguments.min_share}: {below}", flush=True)
    return 1 if failed or below > 2 else 0


if __name__ == "__main__":
    sys.exit(main())
