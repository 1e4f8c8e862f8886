#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs of many families and sizes that nobody tunes kernels for, and the table of their scores.

  python3 tests/sweep.py write FOLDER [--parts rows,sums,...] [--mb 256] [--coarse] [--symbolic]
  fusec bench --patterns FOLDER --duration 0.05 --device cuda:0 --json >sweep.json
  python3 tests/sweep.py check FUSEC             is each family's smallest graph one that fusec takes?
  python3 tests/sweep.py table sweep.json...     by family and type: how many cells reach each score, and the lowest ones

Parts:
  rows    softmax, log-softmax, argmax, layer norm and rms norm (each also behind a residual add) of rows of 8 ... 4,194,304
          elements, in f32, f16 and bf16; inputs and outputs together take --mb
  sums    a sum over each subset of the axes of four shapes, in f32 and f16
  perms   every permutation of a 4-d tensor, elements of 1, 2 and 4 bytes, alone and with an addend
  groups  group norm with and without SiLU at batch 1 and 16
  odd     sizes that are no multiple of anything, and rows that begin off 16 bytes

--coarse keeps every fourth row length and fewer types, for a first look. --symbolic writes rows and groups again with a symbol
in place of the first extent (_symbolic in the name; N64 stands for 64), and a line of --shape for all of them in FOLDER/shapes:
  fusec bench --patterns FOLDER $(cat FOLDER/shapes) ...
The table then has the time of each beside that of fixed extents."""
import argparse
import collections
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "i64": 8}


class Graph:
    """Lines of one graph's text: values are numbered in order."""

    def __init__(self, inputs):
        self.inputs, self.lines = inputs, []

    def add(self, op, operands, dtype, shape, attributes=""):
        name = f"%{len(self.lines)}"
        attributes = f" {{{attributes}}}" if attributes else ""
        self.lines.append(f"  {name} = {op} {', '.join(operands)}{attributes}: {typed(dtype, shape)}".replace(" :", ":"))
        return name

    def constant(self, value):
        name = f"%{len(self.lines)}"
        self.lines.append(f"  {name} = constant f32[] {{{value}}}")
        return name

    def text(self, result):
        inputs = ", ".join(f"%{name}: {typed(dtype, shape)}" for name, dtype, shape in self.inputs)
        return f"graph @main({inputs}) {{\n" + "\n".join(self.lines) + f'\n  return {result} as "z"\n}}\n'


def typed(dtype, shape):
    return f"{dtype}[{', '.join(map(str, shape))}]"


def cast(graph, value, source, to, shape):
    return value if source == to else graph.add("cast", [value], to, shape, f"to = {to}")


def reduced(graph, op, value, shape, axes, dtype="f32"):
    """The reduced value, with its axes kept as 1."""
    left = [d for i, d in enumerate(shape) if i not in axes]
    kept = [1 if i in axes else d for i, d in enumerate(shape)]
    value = graph.add(op, [value], dtype, left, f"axes = [{', '.join(map(str, axes))}]")
    return graph.add("reshape", [value], dtype, kept, f"shape = [{', '.join(map(str, kept))}]"), kept


def softmax(rows, length, dtype, log=False):
    shape = [rows, length]
    g = Graph([("x", dtype, shape)])
    x = cast(g, "%x", dtype, "f32", shape)
    largest, _ = reduced(g, "reduce_max", x, shape, [1])
    x = g.add("sub", [x, largest], "f32", shape)
    e = g.add("exp", [x], "f32", shape)
    total, kept = reduced(g, "reduce_sum", e, shape, [1])
    if log:
        y = g.add("sub", [x, g.add("log", [total], "f32", kept)], "f32", shape)
    else:
        y = g.add("div", [e, total], "f32", shape)
    return g.text(cast(g, y, "f32", dtype, shape))


def log_softmax(rows, length, dtype):
    return softmax(rows, length, dtype, True)


def argmax(rows, length, dtype):
    g = Graph([("x", dtype, [rows, length])])
    return g.text(g.add("argmax", ["%x"], "i64", [rows], "axis = 1, last = 0"))


def centred(g, x, shape, axes):
    mean, _ = reduced(g, "reduce_mean", x, shape, axes)
    x = g.add("sub", [x, mean], "f32", shape)
    return x, g.add("mul", [x, x], "f32", shape)


def divided_by_deviation(g, x, squares, shape, axes):
    mean, kept = reduced(g, "reduce_mean", squares, shape, axes)
    mean = g.add("add", [mean, g.constant("0.00001")], "f32", kept)
    return g.add("mul", [x, g.add("rsqrt", [mean], "f32", kept)], "f32", shape)


def norm(rows, length, dtype, mean, residual):
    shape = [rows, length]
    inputs = [("x", dtype, shape)] + [("y", dtype, shape)] * residual + [("w", dtype, [length])] + [("b", dtype, [length])] * mean
    g = Graph(inputs)
    x = g.add("add", ["%x", "%y"], dtype, shape) if residual else "%x"
    x = cast(g, x, dtype, "f32", shape)
    squares = None if mean else g.add("mul", [x, x], "f32", shape)
    if mean:
        x, squares = centred(g, x, shape, [1])
    y = cast(g, divided_by_deviation(g, x, squares, shape, [1]), "f32", dtype, shape)
    y = g.add("mul", [y, "%w"], dtype, shape)
    return g.text(g.add("add", [y, "%b"], dtype, shape) if mean else y)


ROWS = {"softmax": softmax, "log_softmax": log_softmax, "argmax": argmax,
        "layer_norm": lambda r, c, t: norm(r, c, t, True, False), "layer_norm_residual": lambda r, c, t: norm(r, c, t, True, True),
        "rms_norm": lambda r, c, t: norm(r, c, t, False, False), "rms_norm_residual": lambda r, c, t: norm(r, c, t, False, True)}
TENSORS_OF_ROWS = {"argmax": 1, "layer_norm_residual": 3, "rms_norm_residual": 3}


def row_cells(args, lengths, types):
    for family, make in ROWS.items():
        for length, dtype in itertools.product(lengths, types):
            rows = max(1, args.mb * 2**20 // (TENSORS_OF_ROWS.get(family, 2) * length * BYTES[dtype]))
            yield f"{family}-{dtype}-{rows}x{length}", make(rows, length, dtype)


def rows_part(args):
    lengths = [2**k for k in range(3, 23) if 2**k <= args.longest]
    return row_cells(args, lengths[::2] + lengths[-1:] if args.coarse else lengths, ["f32", "f16"] if args.coarse else ["f32", "f16", "bf16"])


def behind_one_element(text, dtype, rows, length):
    """The graph reads rows that begin one element behind its input's first."""
    head, body = text.split("\n", 1)
    head = head.replace(f"%x: {typed(dtype, [rows, length])}", f"%all: {typed(dtype, [rows * length + 1])}")
    view = [f"  %s = slice %all {{starts = [1], sizes = [{rows * length}], steps = [1]}}: {typed(dtype, [rows * length])}",
            f"  %x = reshape %s {{shape = [{rows}, {length}]}}: {typed(dtype, [rows, length])}"]
    return "\n".join([head, *view, body])


def odd_part(args):
    lengths = [9, 50, 131, 1000, 3073, 10007, 50257, 100003, 250007]
    yield from row_cells(args, lengths[::3] if args.coarse else lengths, ["f32", "f16"])
    for family, dtype, length in itertools.product(("softmax", "layer_norm"), ("f32", "f16"), (64, 4096, 32768)):
        rows = args.mb * 2**20 // (2 * length * BYTES[dtype])
        text = behind_one_element(ROWS[family](rows, length, dtype), dtype, rows, length)
        yield f"{family}_off_by_one-{dtype}-{rows}x{length}", text


def sum_of(shape, axes, dtype):
    g = Graph([("x", dtype, shape)])
    left = [d for i, d in enumerate(shape) if i not in axes]
    x = cast(g, "%x", dtype, "f32", shape)
    y = g.add("reduce_sum", [x], "f32", left, f"axes = [{', '.join(map(str, axes))}]")
    return g.text(cast(g, y, "f32", dtype, left))


def sums_part(args):
    shapes = [[64, 128, 96, 80], [16, 512, 64, 128], [8192, 4, 33, 60], [3, 5, 2048, 2048]]
    for shape in shapes[::2] if args.coarse else shapes:
        for count in range(1, 5):
            for axes in itertools.combinations(range(4), count):
                for dtype in ["f32"] if args.coarse else ["f32", "f16"]:
                    yield f"sum-{dtype}-{named(shape)}-axes{''.join(map(str, axes))}", sum_of(shape, axes, dtype)


def named(shape):
    return "x".join(map(str, shape))


def transposed(shape, order, dtype, addend):
    g, out = Graph([("x", dtype, shape)]), [shape[i] for i in order]
    if addend:
        g.inputs.append(("y", dtype, out))
    y = g.add("transpose", ["%x"], dtype, out, f"perm = [{', '.join(map(str, order))}]")
    return g.text(g.add("add", [y, "%y"], dtype, out) if addend else y)


def perms_part(args):
    for dtype, last in (("f32", 120), ("f16", 240), ("i8", 480)):
        for order in itertools.permutations(range(4)):
            for addend in [False] if args.coarse else [False, True]:
                shape = [24, 40, 256, last]
                if order != (0, 1, 2, 3) or addend:
                    name = "transpose_add" if addend else "transpose"
                    yield f"{name}-{dtype}-{named(shape)}-to{''.join(map(str, order))}", transposed(shape, order, dtype, addend)


def group_norm(shape, groups, dtype, silu):
    n, c, h, w = shape
    g = Graph([("x", dtype, shape), ("w", dtype, [c, 1, 1]), ("b", dtype, [c, 1, 1])])
    grouped = [n, groups, c // groups * h * w]
    x = g.add("reshape", ["%x"], dtype, grouped, f"shape = [{', '.join(map(str, grouped))}]")
    x, squares = centred(g, cast(g, x, dtype, "f32", grouped), grouped, [2])
    y = cast(g, divided_by_deviation(g, x, squares, grouped, [2]), "f32", dtype, grouped)
    y = g.add("reshape", [y], dtype, shape, f"shape = [{', '.join(map(str, shape))}]")
    y = g.add("add", [g.add("mul", [y, "%w"], dtype, shape), "%b"], dtype, shape)
    if silu:
        y = g.add("mul", [y, g.add("sigmoid", [y], dtype, shape)], dtype, shape)
    return g.text(y)


def groups_part(args):
    for batch, dtype, silu in itertools.product((1, 16), ("f32", "f16"), (False, True)):
        for channels, side, groups in ((512, 64, 32), (256, 56, 32), (320, 128, 32), (96, 112, 1), (640, 32, 640)):
            shape = [batch, channels, side, side]
            yield f"group_norm{'_silu' * silu}-{dtype}-{named(shape)}-{groups}", group_norm(shape, groups, dtype, silu)


PARTS = {"rows": rows_part, "sums": sums_part, "perms": perms_part, "groups": groups_part, "odd": odd_part}


SYMBOLIC = "_symbolic"


def symbolic(name, text):
    """The first extent of x becomes a symbol that is called by it, wherever it leads a shape but those of weights."""
    first = text.split("%x: ")[1].split("[")[1].split(",")[0].split("]")[0]
    leads = rf"(\b(?:{'|'.join(BYTES)})\[|shape = \[){first}(?=[],])"
    inputs, body = text.split("\n", 1)
    inputs = re.sub("(?<!%w: )(?<!%b: )" + leads, rf"\1N{first}", inputs)
    return f"{name}{SYMBOLIC}", inputs + "\n" + re.sub(leads, rf"\1N{first}", body), first


def write(args):
    folder = pathlib.Path(args.folder)
    count = 0
    extents = collections.defaultdict(set)
    for part in args.parts.split(","):
        for name, text in PARTS[part](args):
            place = folder / "-".join(family(name)) if args.by_family else folder
            place.mkdir(parents=True, exist_ok=True)
            graphs = [(name, text)]
            if args.symbolic and part in ("rows", "groups") and "off_by_one" not in name:
                *graph, extent = symbolic(name, text)
                graphs.append(graph)
                extents[place].add(extent)
            for name, text in graphs:
                (place / f"{name}.fir").write_text(text)
                count += 1
    for place, of in extents.items():
        (place / "shapes").write_text(" ".join(f"--shape N{extent}={extent}" for extent in sorted(of, key=int)))
    print(f"{count} graphs in {folder}")


def family(name):
    return tuple(name.split("-")[:2])


def table(args):
    cells = collections.defaultdict(list)
    for file in args.files:
        text = pathlib.Path(file).read_text()
        if not text:
            print(f"{file}: no figures")
            continue
        for row in json.loads(text)["patterns"]:
            cells[family(row["pattern"])].append(row)
    print(f"{'family':<24}{'type':<6}{'cells':>6}{'mean':>7}{'>=0.90':>8}{'>=0.75':>8}{'<0.70':>7}  lowest")
    for (name, dtype), rows in sorted(cells.items()):
        scores = [row["score"] for row in rows if "score" in row]
        if not scores:
            continue
        mean = math.exp(sum(map(math.log, scores)) / len(scores))
        low = sorted((row for row in rows if "score" in row), key=lambda row: row["score"])[: args.lowest]
        lowest = ", ".join(f"{'-'.join(row['pattern'].split('-')[2:])} {row['score']:.2f}" for row in low)
        print(f"{name:<24}{dtype:<6}{len(rows):>6}{mean:>7.3f}{sum(s >= 0.9 for s in scores):>8}{sum(s >= 0.75 for s in scores):>8}"
              f"{sum(s < 0.7 for s in scores):>7}  {lowest}")
    times = {row["pattern"]: row["median_ms"] for rows in cells.values() for row in rows if "score" in row}
    pairs = sorted((times[name + SYMBOLIC] / ms, name) for name, ms in times.items() if name + SYMBOLIC in times)
    if pairs:
        mean = math.exp(sum(math.log(ratio) for ratio, _ in pairs) / len(pairs))
        print(f"symbolic beside fixed extents: {len(pairs)} pairs, geometric mean {mean:.3f}, within 2 %: "
              f"{sum(ratio <= 1.02 for ratio, _ in pairs)}; slowest: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in pairs[-8:]))
    failed = [row for rows in cells.values() for row in rows if "score" not in row]
    for row in failed:
        print(f"failed: {row['pattern']}: {row.get('error', '')[:150]}")


def check(args):
    """Small graphs of every part are graphs that fusec takes."""
    with tempfile.TemporaryDirectory() as folder:
        write(argparse.Namespace(folder=folder, parts=",".join(PARTS), mb=1, longest=512, coarse=True, by_family=True, symbolic=False))
        refused = 0
        for kind in sorted(pathlib.Path(folder).iterdir()):
            graph = min(kind.iterdir())
            done = subprocess.run([args.fusec, "optimize", graph], capture_output=True, text=True)
            if done.returncode != 0:
                refused += 1
                print(f"{graph.name}: {done.stderr.strip()}")
        sys.exit(refused > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    writer = commands.add_parser("write")
    writer.add_argument("folder")
    writer.add_argument("--parts", default=",".join(PARTS))
    writer.add_argument("--mb", type=int, default=256, help="MiB of inputs and outputs of a cell of rows")
    writer.add_argument("--longest", type=int, default=2**22, help="elements of the longest rows")
    writer.add_argument("--coarse", action="store_true")
    writer.add_argument("--by-family", action="store_true", help="a folder for each family and type")
    writer.add_argument("--symbolic", action="store_true")
    writer.set_defaults(run=write)
    checker = commands.add_parser("check")
    checker.add_argument("fusec")
    checker.set_defaults(run=check)
    printer = commands.add_parser("table")
    printer.add_argument("files", nargs="+")
    printer.add_argument("--lowest", type=int, default=4)
    printer.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
