# SPDX-License-Identifier: Apache-2.0
"""The builder, its ops against NumPy, operators, jit, and the stub for editors."""
import importlib.util
import math
import threading

import numpy as np

import fusec
from fusec import _ops
from support import PACKAGE, ROOT, TestCase, build

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)


class Ops(TestCase):
    def check(self, make, expected, x=X, dtype="f32"):
        got = build([f"d{i}" for i in range(x.ndim)], make, dtype)(x)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)
        self.assertEqual(got.shape, np.shape(expected))

    def test_ranges_of_symbols(self):
        builder = fusec.Builder()
        builder.output("y", builder.input("x", "f32", ["n"]) * 2)
        with self.assertRaisesRegex(fusec.InvalidArgument, "'2' is no name of a symbol"):
            builder.range("2", 1)
        builder.range("n", 2, 3)
        engine = fusec.compile(builder)
        self.assertEqual(engine(X[0, 0, :3]).shape, (3,))
        with self.assertRaisesRegex(fusec.InvalidArgument, "must be 2 to 3, given is 4"):
            engine(X[0, 0])

    def test_elementwise(self):
        for name, expected in (("exp", np.exp(X)), ("tanh", np.tanh(X)), ("relu", np.maximum(X, 0)), ("sigmoid", 1 / (1 + np.exp(-X))),
                               ("floor", np.floor(X)), ("square", X * X), ("silu", X / (1 + np.exp(-X)))):
            with self.subTest(name):
                self.check(lambda x: getattr(x, name)(), expected)

    def test_gelu(self):
        self.check(lambda x: x.gelu(), np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / 2**0.5)))(X))

    def test_reductions(self):
        self.check(lambda x: x.reduce_sum(axes=[1]), X.sum(axis=1))
        self.check(lambda x: x.reduce_max(axes=(0, 2), keep=True), X.max(axis=(0, 2), keepdims=True))
        self.check(lambda x: x.reduce_mean(axes=[-1]), X.mean(axis=-1))
        self.check(lambda x: x.argmax(axis=2), X.argmax(axis=2))
        self.check(lambda x: x.cumsum(axis=1), X.cumsum(axis=1))

    def test_layout(self):
        self.check(lambda x: x.transpose(perm=[2, 0, 1]), X.transpose(2, 0, 1))
        self.check(lambda x: x.reshape(shape=["d0", "d1*d2"]), X.reshape(2, 12))
        self.check(lambda x: x.reshape(shape=["d0 * d1", "d2"]), X.reshape(6, 4))
        self.check(lambda x: x.slice(starts=[0, 1, 0], sizes=["d0", 2, "d2"]), X[:, 1:3])
        self.check(lambda x: x.builder.concat(x, x, axis=1), np.concatenate([X, X], axis=1))
        self.check(lambda x: x.cast(to="i32"), X.astype(np.int32))
        self.check(lambda x: x.cast(to=np.float64), X.astype(np.float64))
        self.check(lambda x: x.cast(to="int64"), X.astype(np.int64))

    def test_products(self):
        w = np.arange(20, dtype=np.float32).reshape(4, 5)
        np.testing.assert_allclose(build(["n", 3, 4], lambda x: x @ w)(X), X @ w, rtol=1e-5)
        bias = np.ones(5, np.float32)
        np.testing.assert_allclose(build(["n", 4], lambda x: x.linear(w.T.copy(), bias))(X[0]), X[0] @ w + 1, rtol=1e-5)

    def test_where_and_clamp(self):
        self.check(lambda x: (x < 0).where(x * -1, 2 * x), np.where(X < 0, -X, 2 * X))
        self.check(lambda x: x.clamp(-1, 1), X.clip(-1, 1))

    def test_convolution(self):
        image, weight = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)
        got = build(["n", 2, "h", "w"], lambda x: x.conv(weight, strides=[1, 1], pads=[0, 0, 0, 0]))(image)
        np.testing.assert_allclose(got, np.full((1, 3, 3, 3), 18))

    def test_every_op_is_a_method(self):
        for op in _ops.OPS:
            self.assertTrue(callable(getattr(fusec.Builder, op["op"])), op["op"])
        self.assertIn("axis", fusec.Builder.softmax.__doc__)


class Operators(TestCase):
    def test_arithmetic(self):
        for make in (lambda x: x + 2, lambda x: 2 - x, lambda x: x * x - x, lambda x: x / 4, lambda x: 1 / (x + 3), lambda x: -x, abs,
                     lambda x: (x + 3) ** 2, lambda x: np.float32(2) * x, lambda x: X + x, lambda x: X[0, 0] - x):
            np.testing.assert_allclose(build([2, 3, 4], make)(X), make(X), rtol=1e-5)

    def test_comparisons(self):
        for make in (lambda x: x < 0, lambda x: x >= 1, lambda x: (x > -1) & (x <= 1), lambda x: ~(x < 0) | (x > 1)):
            np.testing.assert_array_equal(build([2, 3, 4], make)(X), make(X))

    def test_integers(self):
        x = np.arange(-4, 5, dtype=np.int32)
        for make in (lambda x: x & 3, lambda x: x | 4, lambda x: x ^ 1, lambda x: ~x, lambda x: x << 2, lambda x: x >> 1, lambda x: x % 3):
            np.testing.assert_array_equal(build(["n"], make, "i32")(x), make(x))
        with self.assertRaisesRegex(fusec.InvalidArgument, "0.5, which is no integer"):
            build(["n"], lambda x: x * 0.5, "i32")

    def test_a_value_has_no_truth(self):
        with self.assertRaisesRegex(TypeError, "where"):
            build(["n"], lambda x: x if x > 0 else -x)


class Mistakes(TestCase):
    def test_messages(self):
        builder, other = fusec.Builder(), fusec.Builder()
        x, y = builder.input("x", "f32", "[n, 4]"), other.input("y", "f32", ["n"])
        self.assertEqual((x.dtype, x.shape, x.ndim), ("f32", ("n", 4), 2))
        for call, text in ((lambda: x.softmax(), "needs the attribute 'axis'"), (lambda: x.softmax(axis=-1, base=2), "no attribute 'base'"),
                           (lambda: x + y, "belongs to another Builder"), (lambda: x + "a", "is a str"),
                           (lambda: builder.op("soft_max", x), "soft_max"), (lambda: builder.input("z", "f31", []), "'f31' is no dtype"),
                           (lambda: builder.input("z", "f32", ["n+"]), "parameter 'shape'"), (lambda: builder.output("o", 3), "is no Value"),
                           (lambda: x.pad_mode(before=[0, 0], after=[0, object()], mode="edge"), "is no extent")):
            with self.assertRaisesRegex(fusec.InvalidArgument, text):
                call()

    def test_a_wrong_graph(self):
        builder = fusec.Builder()
        x = builder.input("x", "f32", [3])
        with self.assertRaises(fusec.InvalidArgument):
            x + builder.input("y", "f32", [4])


class Gradients(TestCase):
    def test_a_step_of_gradient_descent(self):
        builder = fusec.Builder()
        x, t = builder.input("x", "f32", ["n", 3]), builder.input("t", "f32", ["n", 2])
        w, b = builder.input("w", "f32", [3, 2]), builder.input("b", "f32", [2])
        loss = (x @ w + b - t).square().reduce_mean(axes=[0, 1])
        dw, db = builder.gradients(loss, [w, b])
        self.assertEqual((dw.shape, db.dtype), ((3, 2), "f32"))
        for name, value in (("loss", loss), ("w", w - 0.1 * dw), ("b", b - 0.1 * db)):
            builder.output(name, value)
        step = fusec.compile(builder)
        X, W, B = np.arange(12, dtype=np.float32).reshape(4, 3) / 6 - 1, np.zeros((3, 2), np.float32), np.ones(2, np.float32)
        T = X @ np.array([[1, 2], [0, -1], [3, 0]], np.float32)
        error = X @ W + B - T
        loss, new_w, new_b = step(X, T, W, B)
        np.testing.assert_allclose(new_w, W - 0.1 * X.T @ error / 4, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(new_b, B - 0.1 * error.sum(0) / 4, rtol=1e-5, atol=1e-6)
        self.assertLess(step(X, T, new_w, new_b)[0], loss)

    def test_dy_and_mistakes(self):
        builder, other = fusec.Builder(), fusec.Builder()
        x = builder.input("x", "f32", [3])
        builder.output("g", builder.gradients(x * x, [x], dy=np.array([1, 2, 3], np.float32))[0])
        np.testing.assert_array_equal(fusec.compile(builder)(np.array([1, 1, 2], np.float32)), [2, 4, 12])
        with self.assertRaisesRegex(fusec.InvalidArgument, "is no Value of this Builder"):
            builder.gradients(x, [other.input("y", "f32", [])])
        with self.assertRaisesRegex(fusec.Unsupported, r"mod of f32\[3\], f32\[3\] has no gradient"):
            builder.gradients(x % x, [x], dy=x)


class Jit(TestCase):
    def test_one_compile_for_all_extents(self):
        @fusec.jit
        def f(x, y):
            """Scales."""
            return (x * 2 + y).exp()

        self.assertEqual((f.__name__, f.__doc__), ("f", "Scales."))
        for n, m in ((2, 3), (5, 7), (90, 4)):
            x, y = np.ones((n, m), np.float32), np.full((n, m), -2, np.float32)
            np.testing.assert_array_equal(f(x, y), np.ones((n, m)))
        self.assertEqual(len(f.engines), 1)
        f(x, y[:1])
        self.assertEqual(len(f.engines), 2)  # one row is broadcast
        f(x=x.astype(np.float64), y=y.astype(np.float64))
        self.assertEqual(len(f.engines), 3)

    def test_stated_shapes(self):
        @fusec.jit(shapes={"x": ["n", 4]}, threads=1)
        def f(x):
            return x.reduce_sum(axes=[1]), x

        for n in (4, 1, 9):
            np.testing.assert_array_equal(f(np.ones((n, 4), np.float32))[0], np.full(n, 4))
        self.assertEqual(len(f.engines), 1)

    def test_constants_from_outside_and_out(self):
        w = np.arange(3, dtype=np.float32)
        out = np.empty((2, 3), np.float32)
        f = fusec.jit(lambda x: x * w, shapes={"x": ["n", 3]})
        self.assertIs(f(np.ones((2, 3), np.float32), out=out), out)
        np.testing.assert_array_equal(out, [w, w])

    def test_mistakes(self):
        w = np.arange(3, dtype=np.float32)
        with self.assertRaisesRegex(fusec.InvalidArgument, "extents n1 and 3 do not broadcast.*state the shapes of.*shapes={'x'"):
            fusec.jit(lambda x: x * w)(np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(fusec.InvalidArgument, "returned a int"):
            fusec.jit(lambda x: 3)(np.ones(2, np.float32))
        with self.assertRaisesRegex(fusec.InvalidArgument, "'y', which is no parameter"):
            fusec.jit(lambda x: x, shapes={"y": [1]})
        with self.assertRaisesRegex(fusec.InvalidArgument, "'fast' is no option"):
            fusec.jit(lambda x: x, fast=True)
        with self.assertRaisesRegex(fusec.InvalidArgument, "plain ones"):
            fusec.jit(lambda *x: x)
        with self.assertRaises(TypeError):
            fusec.jit(lambda x: x)()

    def test_threads_compile_once(self):
        f = fusec.jit(lambda x: (x + 1).tanh())
        threads = [threading.Thread(target=f, args=(np.ones(3, np.float32),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(f.engines), 1)


class Stub(TestCase):
    def test_lists_the_ops_of_the_library(self):
        spec = importlib.util.spec_from_file_location("write_ops", ROOT / "bindings" / "python" / "write_ops.py")
        write_ops = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(write_ops)
        self.assertEqual((PACKAGE / "_ops.pyi").read_text(), write_ops.stub(_ops.OPS), "run bindings/python/write_ops.py > _ops.pyi")
