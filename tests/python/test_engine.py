# SPDX-License-Identifier: Apache-2.0
"""Engines and sessions: results, dtypes, shapes, outputs of the caller, threads, packages."""
import gc
import threading

import numpy as np

import fusec
from support import DIGITS, TestCase, build, digits


class Digits(TestCase):
    def test_accuracy(self):
        images, labels = digits()
        engine = fusec.compile(DIGITS / "digits.onnx")
        self.assertEqual((engine(images).argmax(axis=1) == labels).sum(), 358)

    def test_bytes_and_model_give_the_same(self):
        images, _ = digits()
        data = (DIGITS / "digits.onnx").read_bytes()
        by_bytes, by_model = fusec.compile(data), fusec.compile(fusec.Model.load_onnx_bytes(data))
        np.testing.assert_array_equal(by_bytes(images[:7]), by_model(image=images[:7]))

    def test_describes_itself(self):
        engine = fusec.compile(str(DIGITS / "digits.onnx"))
        self.assertEqual(engine.inputs, (("image", "f32", ("N", 1, 8, 8)),))
        self.assertEqual(engine.outputs[0].numpy_dtype, np.float32)
        self.assertEqual((engine.symbols, engine.device), (("N",), "cpu"))
        self.assertGreater(engine.stats["distinct_kernels"], 0)
        self.assertIn("image: f32[N, 1, 8, 8]", repr(engine))

    def test_symbol_of_an_import(self):
        self.assertEqual(fusec.compile(DIGITS / "digits.onnx", fix={"N": 8}).inputs[0].shape, (8, 1, 8, 8))

    def test_constants_of_an_import(self):
        images, _ = digits()
        model = fusec.Model.load_onnx_bytes((DIGITS / "digits.onnx").read_bytes(), constants={"image": images[:3]})
        self.assertEqual(model.inputs, ())
        self.assertEqual(fusec.compile(model)().shape, (3, 10))


class Packages(TestCase):
    def test_save_and_load(self):
        images, _ = digits()
        path = self.folder() / "digits.fsc"
        engine = fusec.compile(DIGITS / "digits.onnx", threads=1)
        engine.save(path)
        loaded = fusec.load(path)
        np.testing.assert_allclose(loaded(images), engine(images), atol=1e-6)
        with self.assertRaisesRegex(fusec.InvalidArgument, "has no model"):
            loaded.save(path)

    def test_bytes_of_a_package(self):
        path = self.folder() / "digits.fsc"
        fusec.compile(DIGITS / "digits.onnx").save(path)
        data = path.read_bytes()
        with self.assertRaisesRegex(fusec.InvalidArgument, "set trust"):
            fusec.load(data)
        for form in (data, bytearray(data), memoryview(data)):
            self.assertEqual(fusec.load(form, trust=True)(digits()[0][:3]).shape, (3, 10))

    def test_model_for_several_targets(self):
        path = self.folder() / "digits.fsc"
        fusec.Model.load_onnx(DIGITS / "digits.onnx").save(path, targets=["cpu:x86-64-v2", "cpu:native"])
        self.assertEqual(fusec.load(path)(digits()[0][:1]).shape, (1, 10))

    def test_damaged(self):
        path = self.folder() / "digits.fsc"
        path.write_bytes(b"no package")
        with self.assertRaises(fusec.InvalidModel):
            fusec.load(path)


class DTypes(TestCase):
    def test_each(self):
        for name in ("f64", "f32", "f16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
            with self.subTest(name):
                engine = build(["n"], lambda x: x + x, name)
                x = np.arange(5).astype(engine.inputs[0].numpy_dtype)
                y = engine(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(y, x + x)

    def test_bool(self):
        x = np.array([True, False])
        np.testing.assert_array_equal(build(["n"], lambda x: ~x, "bool")(x), ~x)

    def test_bf16_is_bits(self):
        engine = build(["n"], lambda x: x * 2, "bf16")
        y = engine(fusec.to_bf16([1, -2.5, 3.25]))
        self.assertEqual(y.dtype, np.uint16)
        np.testing.assert_array_equal(fusec.from_bf16(y), [2, -5, 6.5])
        np.testing.assert_array_equal(fusec.from_bf16(engine([0.5, 4])), [1, 8])  # a list holds values

    def test_bf16_rounds_to_even_and_keeps_nan(self):
        values = np.array([1 + 2**-8, 1 + 3 * 2**-8, np.nan, np.inf, -0.0], np.float32)
        got = fusec.from_bf16(fusec.to_bf16(values))
        np.testing.assert_array_equal(got, np.array([1, 1 + 2**-6, np.nan, np.inf, -0.0], np.float32))

    def test_wrong_dtype_names_both(self):
        with self.assertRaisesRegex(fusec.InvalidArgument, "input 'x' has dtype f64, and the engine has f32"):
            build(["n"], lambda x: x + 1)(np.zeros(3))
        with self.assertRaisesRegex(fusec.InvalidArgument, "complex128"):
            build(["n"], lambda x: x + 1)(np.zeros(3, complex))
        with self.assertRaises(fusec.InvalidArgument):
            build(["n"], lambda x: x + 1)(np.zeros(3, ">f4"))


class Shapes(TestCase):
    def test_strides(self):
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        engine = build(["n", "m"], lambda x: x * 3)
        for x in (base.T, base[::-1], base[:, ::2], base[1:3, ::-2], np.broadcast_to(base[:1], (4, 6))):
            np.testing.assert_array_equal(engine(x), x * 3)

    def test_misaligned_and_fields_of_records(self):
        engine = build(["n"], lambda x: x + 1)
        odd = np.frombuffer(bytes(1) + np.arange(4, dtype=np.float32).tobytes(), np.float32, offset=1)
        np.testing.assert_array_equal(engine(odd), odd + 1)
        records = np.zeros(3, np.dtype([("flag", "i1"), ("value", "f4")]))
        records["value"] = [1, 2, 3]
        np.testing.assert_array_equal(engine(records["value"]), [2, 3, 4])

    def test_read_only_input(self):
        x = np.arange(3, dtype=np.float32)
        x.flags.writeable = False
        np.testing.assert_array_equal(build(["n"], lambda x: x + 1)(x), [1, 2, 3])

    def test_scalars(self):
        engine = build([], lambda x: x * x)
        for x in (3, 3.0, np.float32(3), np.array(3, np.float32)):
            y = engine(x)
            self.assertEqual((y.shape, float(y)), ((), 9.0))

    def test_no_elements(self):
        y = build(["n", 4], lambda x: x + 1)(np.zeros((0, 4), np.float32))
        self.assertEqual(y.shape, (0, 4))

    def test_many_shapes_compile_nothing(self):
        engine = build(["n", "m"], lambda x: x.softmax(axis=-1))
        before = engine.stats
        rng = np.random.default_rng(1)
        for n, m in rng.integers(1, 90, (200, 2)):
            x = rng.random((n, m), np.float32)
            e = np.exp(x - x.max(axis=1, keepdims=True))
            np.testing.assert_allclose(engine(x), e / e.sum(axis=1, keepdims=True), rtol=1e-5)
        after = engine.stats
        for name in ("compiled_kernels", "distinct_kernels", "compile_ms"):
            self.assertEqual(before[name], after[name])

    def test_wrong_shapes(self):
        engine = fusec.compile(DIGITS / "digits.onnx")
        with self.assertRaisesRegex(fusec.InvalidArgument, r"input 'image' has shape \[1, 8, 8\].*4 extents"):
            engine(np.zeros((1, 8, 8), np.float32))
        with self.assertRaisesRegex(fusec.InvalidArgument, "axis 3 must be 8, given is 9"):
            engine(np.zeros((1, 1, 8, 9), np.float32))

    def test_prepare(self):
        engine = build(["n"], lambda x: x + 1)
        engine.prepare((7,))
        with self.assertRaisesRegex(fusec.InvalidArgument, "2 shapes were given"):
            engine.prepare((7,), (7,))

    def test_profile(self):
        engine = build(["n"], lambda x: x + 1)
        profile = engine.profile(np.zeros(4096, np.float32), runs=5)
        self.assertEqual(profile["runs"], 5)
        self.assertEqual(len(profile["launches"]), 1)
        self.assertEqual(profile["launches"][0]["kind"], "generated")
        parts = sum(profile[name] for name in ("sum_us", "copies_us", "gaps_us", "host_us", "unexplained_us"))
        self.assertAlmostEqual(parts, profile["measured_us"], 6)
        self.assertEqual(engine.session().profile(x=np.zeros(2, np.float32))["runs"], 20)
        with self.assertRaisesRegex(fusec.InvalidArgument, "runs is 0"):
            engine.profile(np.zeros(2, np.float32), runs=0)
        with self.assertRaisesRegex(fusec.InvalidArgument, "2 inputs were given"):
            engine.profile(np.zeros(2, np.float32), np.zeros(2, np.float32))


class Arguments(TestCase):
    def setUp(self):
        builder = fusec.Builder()
        a, b = builder.input("a", "f32", ["n"]), builder.input("b", "f32", ["n"])
        builder.output("sum", a + b)
        builder.output("difference", a - b)
        self.engine = fusec.compile(builder)
        self.a, self.b = np.arange(3, dtype=np.float32), np.ones(3, np.float32)

    def test_position_and_name(self):
        for got in (self.engine(self.a, self.b), self.engine(self.a, b=self.b), self.engine(b=self.b, a=self.a)):
            self.assertIsInstance(got, tuple)
            np.testing.assert_array_equal(got[1], self.a - self.b)

    def test_mistakes(self):
        for call, text in ((lambda: self.engine(self.a), "input 'b' is missing"),
                           (lambda: self.engine(self.a, self.b, self.b), "3 inputs were given"),
                           (lambda: self.engine(self.a, self.b, c=self.b), "'c' is no input"),
                           (lambda: self.engine(self.a, self.b, a=self.b), "'a' is given twice"),
                           (lambda: self.engine(self.a, object()), "input 'b' is a object, which is no array")):
            with self.assertRaisesRegex(fusec.InvalidArgument, text):
                call()

    def test_out(self):
        first, second = np.empty(3, np.float32), np.empty(6, np.float32)[::2]
        got = self.engine(self.a, self.b, out=[first, second])
        self.assertIs(got[0], first)
        self.assertIs(got[1], second)
        np.testing.assert_array_equal(first, self.a + self.b)
        np.testing.assert_array_equal(second, self.a - self.b)
        by_name = {"difference": np.empty(3, np.float32), "sum": np.empty(3, np.float32)}
        self.engine(self.a, self.b, out=by_name)
        np.testing.assert_array_equal(by_name["difference"], self.a - self.b)

    def test_wrong_out(self):
        good, read_only = np.empty(3, np.float32), np.empty(3, np.float32)
        read_only.flags.writeable = False
        for out, text in ((good, "out has 1 members"), ([good, np.empty(4, np.float32)], r"'difference' has shape \[4\].*make \[3\]"),
                          ([good, np.empty(3)], "'difference' has dtype f64"), ([good, read_only], "'difference' is a read-only array"),
                          ([good, [0, 0, 0]], "'difference' is a list"), ({"sum": good}, "out names")):
            with self.assertRaisesRegex(fusec.InvalidArgument, text):
                self.engine(self.a, self.b, out=out)


class Threads(TestCase):
    def test_eight_threads_one_engine(self):
        engine = build(["n", 8], lambda x: (x * 2 + 1).softmax(axis=-1), threads=1)
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(60):
                x = rng.random((int(rng.integers(1, 9)), 8), np.float32)
                e = np.exp(x * 2 + 1)
                if not np.allclose(engine(x), e / e.sum(axis=1, keepdims=True), rtol=1e-5):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_session_in_use(self):
        session = build(["n"], lambda x: x + 1).session()
        session._busy.acquire()
        with self.assertRaisesRegex(fusec.InvalidArgument, "in use by another thread"):
            session(np.zeros(2, np.float32))
        session._busy.release()
        np.testing.assert_array_equal(session(np.zeros(2, np.float32)), [1, 1])

    def test_session_outlives_its_engine(self):
        session = build(["n"], lambda x: x + 1).session()
        gc.collect()
        np.testing.assert_array_equal(session.run(np.zeros(2, np.float32)), [1, 1])


class Overhead(TestCase):
    def test_dense_calls_make_no_plan_twice(self):
        engine = build(["n"], lambda x: x + 1)
        session = engine.session()
        for n in (1, 2):
            session(np.zeros(n, np.float32))
        plans = dict(session._plans)
        for n in (1, 2):
            session(np.zeros(n, np.float32))
        self.assertEqual(session._plans, plans)  # plans compare by identity
        for n in range(200):
            session(np.zeros(n, np.float32))
        self.assertLessEqual(len(session._plans), 64)
