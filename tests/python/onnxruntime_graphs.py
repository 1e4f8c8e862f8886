# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs of ops that fusec takes and ops that it lacks, for the execution provider.

usage: onnxruntime_graphs.py COUNT [--seed N]    compare the runs of COUNT graphs; print each seed that fails, exit 1 if there is one
"""
import argparse
import sys

import numpy as np
import onnxruntime_support as support
from onnxruntime_support import BOOL, F32, assigned, difference, helper, make_model, open_reference, open_session

UNARY = ["Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Softsign", "HardSigmoid", "Erf", "Elu", "LeakyRelu", "Identity", "Softplus", "HardSwish"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
LACKING = ["FastGelu", "QuickGelu", "Gelu"]  # of com.microsoft


class Generator:
    """Values are (name, shape); a shape holds numbers, "n" and "m"."""

    def __init__(self, seed, share_lacking):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.values, self.inputs = [], {}, [], []
        self.share_lacking, self.count, self.lacks = share_lacking, 0, False

    def pick(self, items):
        return items[self.random.integers(len(items))]

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def value(self):
        """A value, more likely one that was made lately."""
        return self.values[-1 - min(int(self.random.exponential(3)), len(self.values) - 1)]

    def add(self, op, inputs, shape=None, outputs=1, domain="", **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name="n_" + names[0], domain=domain, **attributes))
        if shape is not None:
            self.values += [(name, list(shape)) for name in names]
        return names[0]

    def weight(self, *shape):
        return self.constant(self.random.standard_normal(shape, dtype=np.float32) * 0.5)

    def constant(self, data):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(data)
        return name

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    # Each adds some nodes, or nothing where the value does not suit.

    def unary(self, v, shape):
        self.add(self.pick(UNARY), [v], shape)

    def lacking(self, v, shape):
        self.lacks = True
        self.add(self.pick(LACKING), [v], shape, domain="com.microsoft")

    def binary(self, v, shape):
        same = [name for name, other in self.values if other == shape]
        last = [shape[-1]] if shape and isinstance(shape[-1], int) else [1]
        other = self.pick(same) if self.random.random() < 0.7 else self.weight(*last)
        self.add(self.pick(BINARY), [v, other] if self.random.random() < 0.5 else [other, v], shape)

    def matmul(self, v, shape):
        if len(shape) >= 2 and isinstance(shape[-1], int):
            columns = int(self.random.integers(1, 9))
            self.add("MatMul", [v, self.weight(shape[-1], columns)], shape[:-1] + [columns])

    def transpose(self, v, shape):
        if not shape:
            return
        order = [int(axis) for axis in self.random.permutation(len(shape))]
        self.add("Transpose", [v], [shape[axis] for axis in order], perm=order)

    def softmax(self, v, shape):
        if shape:
            self.add("Softmax", [v], shape, axis=int(self.random.integers(len(shape))))

    def reduce(self, v, shape):
        if not shape:
            return
        axis, keep = int(self.random.integers(len(shape))), int(self.random.integers(2))
        kept = shape[:axis] + [1] * keep + shape[axis + 1:]
        op = self.pick(["ReduceMean", "ReduceMax", "ReduceSum"])
        if op == "ReduceSum":
            self.add(op, [v, self.integers(axis)], kept, keepdims=keep)
        else:
            self.add(op, [v], kept, axes=[axis], keepdims=keep)

    def layer_norm(self, v, shape):
        if shape and isinstance(shape[-1], int) and shape[-1] > 1:  # ONNX Runtime 1.23 refuses rows of one
            self.add("LayerNormalization", [v, self.weight(shape[-1]), self.weight(shape[-1])], shape, epsilon=1e-2)

    def reshape(self, v, shape):
        if len(shape) >= 2 and all(isinstance(dim, int) for dim in shape[1:]):
            self.add("Reshape", [v, self.integers(0, -1)], [shape[0], int(np.prod(shape[1:]))])

    def reshape_by_shape(self, v, shape):
        """Shape arithmetic, perhaps of another value with the same first axis."""
        if len(shape) < 2 or not all(isinstance(dim, int) for dim in shape[1:]):
            return
        source = self.pick([name for name, other in self.values if other and other[0] == shape[0]])
        whole = self.add("Shape", [source])
        first = self.add("Gather", [whole, self.constant(np.int64(0))])
        vector = self.add("Unsqueeze", [first, self.integers(0)])
        target = self.add("Concat", [vector, self.integers(-1, 1)], axis=0)
        self.add("Reshape", [v, target], [shape[0], int(np.prod(shape[1:])), 1])

    def expand(self, v, shape):
        if shape and shape[-1] == 1 and len(shape) >= 2:
            self.add("Expand", [v, self.integers(*[1] * (len(shape) - 1), 5)], shape[:-1] + [5])

    def squeeze(self, v, shape):
        if 1 in shape:
            axis = shape.index(1)
            self.add("Squeeze", [v, self.integers(axis)], shape[:axis] + shape[axis + 1:])
        elif len(shape) < 4:
            axis = int(self.random.integers(len(shape) + 1))
            self.add("Unsqueeze", [v, self.integers(axis)], shape[:axis] + [1] + shape[axis:])

    def concat(self, v, shape):
        if shape and isinstance(shape[-1], int) and shape[-1] < 40:
            other = self.pick([name for name, other in self.values if other == shape])
            self.add("Concat", [v, other], shape[:-1] + [2 * shape[-1]], axis=-1)

    def split(self, v, shape):
        if shape and isinstance(shape[-1], int) and shape[-1] % 2 == 0:
            self.add("Split", [v], shape[:-1] + [shape[-1] // 2], outputs=2, axis=-1)

    def slice(self, v, shape):
        if shape and isinstance(shape[-1], int) and shape[-1] > 2:
            one = self.integers(1)
            self.add("Slice", [v, one, self.integers(2**40), self.integers(-1)], shape[:-1] + [shape[-1] - 1])

    def gather(self, v, shape):
        if shape and isinstance(shape[-1], int):
            indices = self.random.integers(0, shape[-1], 3)
            self.add("Gather", [v, self.integers(*indices)], shape[:-1] + [3], axis=-1)

    def clip(self, v, shape):
        self.add("Clip", [v, "", self.constant(np.float32(0.7))], shape)

    def cast(self, v, shape):
        wide = self.add("Cast", [v], to=helper.np_dtype_to_tensor_dtype(np.dtype("float64")))
        self.add("Cast", [wide], shape, to=F32)

    def branch(self, v, shape):
        """An If on an input: it stays with others, and its graphs are asked for by themselves."""
        if all(name != "c" for name, *_ in self.inputs):
            self.inputs.append(("c", BOOL, []))

        def graph(op):
            made, out = self.name(), self.name()
            nodes = [helper.make_node("Tanh", [v], [made], name="n_" + made), helper.make_node(op, [made, v], [out], name="n_" + out)]
            return helper.make_graph(nodes, "g" + out, [], [helper.make_tensor_value_info(out, F32, None)])
        self.lacks = True
        self.add("If", ["c"], shape, then_branch=graph("Add"), else_branch=graph("Mul"))

    def model(self):
        rank = int(self.random.integers(1, 4))
        shape = ["n", 4, 6][:rank] if self.random.random() < 0.8 else ["n", "m", 6][:rank]
        for name in ("x", "y")[: int(self.random.integers(1, 3))]:
            self.inputs.append((name, F32, shape))
            self.values.append((name, shape))
        steps = [self.unary, self.unary, self.binary, self.binary, self.matmul, self.transpose, self.softmax, self.reduce, self.layer_norm,
                 self.reshape, self.reshape_by_shape, self.expand, self.squeeze, self.concat, self.split, self.slice, self.gather, self.clip,
                 self.cast]
        for _ in range(int(self.random.integers(3, 25))):
            rare = [self.lacking] * 9 + [self.branch]
            (self.pick(rare) if self.random.random() < self.share_lacking else self.pick(steps))(*self.value())
        read = {name for part in self.nodes for name in part.input}
        made = [name for name, _ in self.values if name not in ("x", "y")] or [self.add("Neg", ["x"], shape)]
        outputs = [name for name in made if name not in read] + [name for name in made if name in read and self.random.random() < 0.1]
        return make_model(self.nodes, self.inputs, [(name, F32, None) for name in outputs], self.weights, domains=("com.microsoft",))

    def feed(self, n):
        def dims(shape):
            return [{"n": n, "m": n + 2}.get(dim, dim) for dim in shape]
        return {name: np.array(self.random.random() < 0.5) if kind == BOOL else self.random.standard_normal(dims(shape), dtype=np.float32)
                for name, kind, shape in self.inputs}


def check(seed, **options):
    """Why graph `seed` fails, or None; and its Report, None where ONNX Runtime's CPU provider cannot run the graph."""
    generator = Generator(seed, share_lacking=(0, 0.1, 0.3)[seed % 3])
    model = generator.model()
    feeds = [generator.feed(n) for n in (1, 3, 4)]
    try:
        reference = open_reference(model)
        wanted = [reference.run(None, feed) for feed in feeds]
    except Exception:  # such as "Missing Input" of a branch
        return None, None
    try:
        session, report = open_session(model, **options)
    except Exception as fault:
        return f"no session: {fault}", None
    ops = assigned(session)
    if ops is not None and len(ops) != report.taken:
        return f"ONNX Runtime says {ops}, the report {report.line}", report
    if not generator.lacks and report.taken != report.nodes and support.VERSION >= (1, 24):
        return f"something was left: {report.line}", report
    for feed, want in zip(feeds, wanted):
        try:
            got = session.run(None, feed)
        except Exception as fault:
            return f"{fault}; {report.line}", report
        fault = difference(got, want)
        if fault is not None:
            return f"{fault}; {report.line}", report
    return None, report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = taken = nodes = pieces = skipped = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        fault, report = check(seed)
        skipped += report is None and fault is None
        if report is not None:
            taken, nodes, pieces = taken + report.taken, nodes + report.nodes, pieces + report.pieces
        if fault is not None:
            failed += 1
            print(f"seed {seed}: {fault}", flush=True)
    print(f"{arguments.count} graphs in ONNX Runtime {support.ort.__version__}: {taken} of {nodes} nodes taken, in {pieces} pieces; "
          f"{skipped} that its CPU provider does not run; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
