# SPDX-License-Identifier: Apache-2.0
"""The execution provider for ONNX Runtime: what it takes, what it reports, shapes, threads, options, EPContext, errors."""
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import onnxruntime_support as support
from onnxruntime_support import (BOOL, F32, I64, TensorProto, assigned, difference, helper, make_model, node, numpy_helper, open_reference,
                                 open_session, ort, provider, session_options)

import onnx
from support import ROOT, TestCase, programs, run_python


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def mlp(width=48):
    return make_model([node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "d"), node("Softmax", "d", "y")],
                      [("x", F32, ["n", 64])], [("y", F32, ["n", width])], {"w": floats(64, width), "b": floats(width)})


def split_model():
    """Det between two parts that fusec takes, and a part beside it."""
    return make_model([node("MatMul", "x w", "a"), node("Reshape", "a shape", "m"), node("Det", "m", "d"), node("Exp", "a", "e"),
                       node("ReduceSum", "e one", "r", keepdims=0), node("Neg", "d", "y")],
                      [("x", F32, ["n", 8])], [("y", F32, None), ("r", F32, None)],
                      {"w": floats(8, 9), "shape": np.array([-1, 3, 3]), "one": np.array([1])})


class OrtCase(TestCase):
    def check(self, model, *feeds, **options):
        """Compares the runs with those of ONNX Runtime's CPU provider, and the report with what ONNX Runtime says."""
        session, report = open_session(model, **options)
        reference = open_reference(model)
        for feed in feeds:
            fault = difference(session.run(None, feed), reference.run(None, feed))
            self.assertIsNone(fault, f"{report.line}: {fault}")
        ops = assigned(session)
        if ops is not None:
            self.assertEqual(len(ops), report.taken, f"{report.line}: {ops}")
        return session, report


class Taking(OrtCase):
    def test_registers(self):
        self.assertEqual([device.ep_name for device in support.DEVICES], ["fusec"])
        self.assertEqual(support.DEVICES[0].ep_vendor, "fusec")

    def test_exports_two_functions(self):
        done = subprocess.run(["nm", "-D", "--defined-only", provider.get_library_path()], capture_output=True, text=True, check=True)
        self.assertEqual(sorted(line.split()[-1] for line in done.stdout.splitlines()), ["CreateEpFactories", "ReleaseEpFactory"])

    def test_whole_model(self):
        _, report = self.check(mlp(), *({"x": floats(n, 64)} for n in (1, 2, 7)), strict=1)
        self.assertEqual((report.taken, report.nodes, report.pieces), (3, 3, 1))  # ONNX Runtime made a Gemm

    def test_rest_is_left_to_others(self):
        _, report = self.check(split_model(), {"x": floats(2, 8)}, {"x": floats(5, 8)})
        self.assertEqual((report.taken, report.nodes, report.pieces), (5, 6, 2))
        self.assertIn("left to others: 1 x Det, first 'n_d': no rule for it", report.line)

    def test_pieces_are_convex(self):
        # Det leads from the first piece to the last node; two chains must not end up in one piece with it.
        model = make_model([node("Exp", "x", "a"), node("Det", "a", "d"), node("Mul", "a d", "b"), node("Relu", "b", "c"),
                            node("Det", "c", "e"), node("Sub", "b e", "f"), node("Add", "a f", "g"), node("Neg", "x", "h"),
                            node("Add", "g h", "y")], [("x", F32, [3, 3, 3])], [("y", F32, None)])
        _, report = self.check(model, {"x": floats(3, 3, 3)})
        self.assertEqual((report.taken, report.pieces), (7, 3))

    def test_shapes_go_to_their_users(self):
        # The shape comes from in front of Det. In the piece before it, Reshape's shape would be numbers of a run.
        model = make_model([node("Relu", "x", "r"), node("Shape", "r", "s"), node("Slice", "s zero two", "t"), node("Det", "r", "d"),
                            node("Exp", "d", "e"), node("Reshape", "e t", "y")],
                           [("x", F32, ["n", "m", 3, 3])], [("y", F32, None)], {"zero": np.array([0]), "two": np.array([2])})
        _, report = self.check(model, {"x": floats(2, 5, 3, 3)}, {"x": floats(1, 4, 3, 3)})
        self.assertEqual((report.taken, report.pieces), (5, 2))

    def test_shape_of_a_run_is_refused(self):
        model = make_model([node("Relu", "x", "r"), node("Reshape", "r s", "y")],
                           [("x", F32, ["n", 6]), ("s", I64, [2])], [("y", F32, None)])
        _, report = self.check(model, {"x": floats(4, 6), "s": np.array([3, 8])})
        self.assertEqual((report.taken, report.nodes), (1, 2))

    def test_extents_without_names_promise_nothing(self):
        model = make_model([node("Relu", "x", "r"), node("Add", "r k", "y"), node("Exp", "y", "z")], [("x", F32, ["n", None])],
                           [("z", F32, None)], {"k": floats(5)})
        _, report = self.check(model, {"x": floats(2, 1)}, {"x": floats(2, 5)})
        self.assertEqual((report.taken, report.nodes), (2, 3))
        self.assertIn("axis 1 of 'x' would have to be 5, which the model does not say", report.line)

    def test_graphs_inside_nodes(self):
        def branch(name, op):
            return helper.make_graph([helper.make_node("MatMul", ["x", "w"], [name + "a"]), helper.make_node(op, [name + "a"], [name])],
                                     name, [], [helper.make_tensor_value_info(name, F32, None)])
        model = make_model([node("If", "c", "i", then_branch=branch("p", "Relu"), else_branch=branch("q", "Exp")), node("Neg", "i", "y")],
                           [("x", F32, ["n", 8]), ("c", BOOL, [])], [("y", F32, None)], {"w": floats(8, 400)})
        session, report = open_session(model)
        reference = open_reference(model)
        for c in (True, False):
            feed = {"x": floats(3, 8), "c": np.array(c)}
            self.assertIsNone(difference(session.run(None, feed), reference.run(None, feed)))
        inside = 4 if support.VERSION >= (1, 25) else 0  # before, ONNX Runtime mixes up the names of fused nodes
        self.assertEqual((report.taken, report.nodes), (1 + inside, 6), report.line)
        self.assertIn("1 x If", report.line)

    def test_unknown_ranks_are_refused(self):
        model = make_model([node("Relu", "x", "r"), node("Exp", "r", "y")], [("x", F32, None)], [("y", F32, None)])
        _, report = self.check(model, {"x": floats(2, 3)}, {"x": floats(4)})
        self.assertEqual(report.taken, 0)

    def test_initializers_that_may_be_overridden(self):
        model = make_model([node("Mul", "x k", "y")], [("x", F32, ["n"]), ("k", F32, [1])], [("y", F32, None)],
                           {"k": np.array([3], np.float32)})
        self.check(model, {"x": floats(4)}, {"x": floats(4), "k": np.array([5], np.float32)})

    def test_element_types(self):
        for element in ("FLOAT16", "DOUBLE", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"):
            kind = getattr(TensorProto, element)
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            model = make_model([node("Concat", "x w", "c", axis=0), node("Cast", "c", "y", to=F32)], [("x", kind, ["n", 3])],
                               [("y", F32, None), ("c", kind, None)], {"w": np.arange(3000).reshape(1000, 3).astype(dtype)})
            with self.subTest(element):
                _, report = self.check(model, {"x": np.arange(12).reshape(4, 3).astype(dtype)})
                self.assertEqual(report.taken, 2)
        model = make_model([node("Not", "x", "y")], [("x", BOOL, ["n"])], [("y", BOOL, None)])
        self.check(model, {"x": np.array([True, False])}, strict=1)

    def test_strings_are_left_to_others(self):
        model = make_model([node("Identity", "s", "t"), node("Neg", "x", "y")], [("s", TensorProto.STRING, ["n"]), ("x", F32, ["n"])],
                           [("t", TensorProto.STRING, None), ("y", F32, None)])
        session, report = open_session(model)
        self.assertEqual(report.taken, 1)
        t, y = session.run(None, {"s": np.array(["a", "b"]), "x": np.array([1, 2], np.float32)})
        self.assertEqual((list(t), list(y)), (["a", "b"], [-1, -2]))

    def test_scalars_and_empty_tensors(self):
        model = make_model([node("Add", "x k", "y"), node("ReduceSum", "y", "z", keepdims=0)], [("x", F32, ["n", 3])],
                           [("y", F32, None), ("z", F32, None)], {"k": np.float32(2)})
        self.check(model, {"x": floats(0, 3)}, {"x": floats(2, 3)})

    def test_absent_values_and_attributes(self):
        model = make_model([helper.make_node("Clip", ["x", "", "most"], ["a"]), helper.make_node("Split", ["a"], ["b", "c"], axis=1),
                            node("LayerNormalization", "b scale", "d", epsilon=1e-3), node("Cast", "c", "e", to=TensorProto.FLOAT16),
                            node("Cast", "e", "f", to=F32), node("Constant", "", "k", value=numpy_helper.from_array(floats(1, 4))),
                            helper.make_node("Sum", ["d", "f", "k"], ["y"])],
                           [("x", F32, ["n", 8])], [("y", F32, None)], {"most": np.float32(0.5), "scale": floats(4)})
        self.check(model, {"x": floats(3, 8)}, strict=1)


    def test_kinds_of_attributes(self):
        """A tensor, a string, lists, a number; bodies of functions, too."""
        model = make_model([node("Conv", "x w", "a", auto_pad="SAME_UPPER", strides=[2, 2]), node("Shape", "a", "s"),
                            node("ConstantOfShape", "s", "k", value=numpy_helper.from_array(np.array([3], np.float32))),
                            node("Add", "a k", "b"), node("LeakyRelu", "b", "c", alpha=0.3), node("MeanVarianceNormalization", "c", "d", axes=[0, 2, 3]),
                            node("Einsum", "d", "y", equation="nchw->ncwh")],
                           [("x", F32, ["n", 3, 8, 8])], [("y", F32, None)], {"w": floats(4, 3, 3, 3)})
        self.check(model, {"x": floats(2, 3, 8, 8)}, strict=1)


class Shapes(OrtCase):
    def test_one_compile_for_all(self):
        folder = self.folder()
        model = mlp(width=51)  # engines of a process share kernels: of no other test
        session, report = open_session(model, cache_dir=folder)
        compiled = sorted(folder.rglob("*"))
        self.assertGreater(report.kernels, 0)
        reference = open_reference(model)
        for n in (1, 2, 3, 16, 33, 100):
            self.assertIsNone(difference(session.run(None, {"x": floats(n, 64)}), reference.run(None, {"x": floats(n, 64)})))
        self.assertEqual(sorted(folder.rglob("*")), compiled)

    def test_symbols_of_options(self):
        model = make_model([node("MatMul", "x w", "a"), node("Reshape", "a shape", "m"), node("Det", "m", "y")],
                           [("x", F32, ["n", 8])], [("y", F32, None)], {"w": floats(8, 9), "shape": np.array([-1, 3, 3])})
        session, _ = self.check(model, {"x": floats(4, 8)}, fix="n=4;other=5")
        with self.assertRaisesRegex(Exception, "4"):
            session.run(None, {"x": floats(3, 8)})
        session, _ = self.check(model, {"x": floats(4, 8)}, range="n=2:8")
        with self.assertRaisesRegex(Exception, "n"):
            session.run(None, {"x": floats(9, 8)})

    def test_unequal_extents_are_an_error_of_the_run(self):
        model = make_model([node("Add", "x y", "z")], [("x", F32, ["n", 4]), ("y", F32, ["n", 4])], [("z", F32, ["n", 4])])
        session, _ = open_session(model)
        with self.assertRaisesRegex(Exception, "fusec: "):
            session.run(None, {"x": floats(3, 4), "y": floats(2, 4)})
        self.assertEqual(session.run(None, {"x": floats(2, 4), "y": floats(2, 4)})[0].shape, (2, 4))


class Threads(OrtCase):
    def test_runs_at_once(self):
        session, _ = open_session(split_model())
        reference = open_reference(split_model())
        feeds = [{"x": floats(n, 8, seed=n)} for n in range(1, 9)]
        wanted = [reference.run(None, feed) for feed in feeds]
        faults = []

        def work(index):
            for turn in range(40):
                at = (index + turn) % len(feeds)
                faults.append(difference(session.run(None, feeds[at]), wanted[at]))
        threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(faults), set(faults)), (320, {None}))

    def test_sessions_at_once(self):
        faults = []

        def work():
            session = ort.InferenceSession(mlp().SerializeToString(), session_options(severity=3))
            faults.append(difference(session.run(None, {"x": floats(3, 64)}), wanted))
        wanted = open_reference(mlp()).run(None, {"x": floats(3, 64)})
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [None] * 6)


class Options(OrtCase):
    def refused(self, model, text, entries=None, **options):
        with support.Stderr(), self.assertRaisesRegex(Exception, text):
            ort.InferenceSession(support.as_source(model), session_options(entries, **options), enable_fallback=0)

    def test_strict(self):
        self.refused(split_model(), r"fusec: strict is set, and node 'n_d' \(Det\): no rule for it", strict=1)
        alone = make_model([node("Det", "x", "y")], [("x", F32, [3, 3])], [("y", F32, None)])
        self.refused(alone, r"node 'n_y' \(Det\): no rule for it", strict="true")
        _, report = open_session(alone, strict=0)
        self.assertEqual(report.taken, 0)

    def test_keys_and_values_are_checked(self):
        self.refused(mlp(), "numeric", numeric="exact")
        self.refused(mlp(), "numerics best is not one of precise, exact, fast", numerics="best")
        self.refused(mlp(), "strict 'maybe' is not valid", strict="maybe")

    def test_options_reach_the_compiler(self):
        folder = self.folder()
        self.check(mlp(), {"x": floats(3, 64)}, numerics="exact", threads=1, dump=folder / "stages")
        self.assertTrue(list((folder / "stages").iterdir()))

    def test_entries_of_the_session(self):
        settings = ort.SessionOptions()
        settings.add_session_config_entry("ep.fusec.numerics", "worst")
        settings.add_provider_for_devices(support.DEVICES, {})
        with support.Stderr(), self.assertRaisesRegex(Exception, "numerics worst is not one of"):
            ort.InferenceSession(mlp().SerializeToString(), settings, enable_fallback=0)


class Contexts(OrtCase):
    def write(self, model, embed, name="model.onnx"):
        folder = self.folder()
        onnx.save(model, folder / name)
        entries = {"ep.context_enable": "1", "ep.context_file_path": str(folder / "compiled.onnx"), "ep.context_embed_mode": str(int(embed))}
        _, report = open_session(folder / name, entries, no_cache=1)
        self.assertGreater(report.kernels, 0)
        return folder / "compiled.onnx"

    def reload(self, path, model, feed, **options):
        session, report = open_session(path, no_cache=1, **options)
        self.assertEqual(report.kernels, 0)
        self.assertIsNone(difference(session.run(None, feed), open_reference(model).run(None, feed)))
        return report

    def test_package_beside_the_model(self):
        path = self.write(split_model(), embed=False)
        self.assertEqual(len(list(path.parent.glob("compiled_*.fsc"))), 2)
        self.assertEqual(sum(part.op_type == "EPContext" for part in onnx.load(path).graph.node), 2)
        report = self.reload(path, split_model(), {"x": floats(3, 8)})
        self.assertEqual(report.taken, 2)

    def test_package_inside_the_model(self):
        path = self.write(split_model(), embed=True)
        self.assertEqual(list(path.parent.glob("*.fsc")), [])
        self.reload(path, split_model(), {"x": floats(4, 8)}, trust=1)

    def test_package_inside_wants_trust(self):
        path = self.write(mlp(), embed=True)
        with support.Stderr(), self.assertRaisesRegex(Exception, "trust"):
            ort.InferenceSession(str(path), session_options())

    def test_package_that_others_may_write(self):
        path = self.write(mlp(), embed=False)
        (package,) = path.parent.glob("*.fsc")
        os.chmod(package, 0o666)
        with support.Stderr(), self.assertRaisesRegex(Exception, "fusec: "):
            ort.InferenceSession(str(path), session_options())

    def test_damaged_package(self):
        path = self.write(mlp(), embed=False)
        (package,) = path.parent.glob("*.fsc")
        package.write_bytes(package.read_bytes()[:1000])
        with support.Stderr(), self.assertRaisesRegex(Exception, "fusec: "):
            ort.InferenceSession(str(path), session_options())

    def test_package_in_another_folder(self):
        path = self.write(mlp(), embed=False)
        model = onnx.load(path)
        for attribute in model.graph.node[0].attribute:
            if attribute.name == "ep_cache_context":
                attribute.s = b"../" + attribute.s
        onnx.save(model, path)
        with support.Stderr(), self.assertRaisesRegex(Exception, "without a folder"):
            ort.InferenceSession(str(path), session_options())

    def test_node_of_another_provider(self):
        other = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=1, ep_cache_context="", source="other")
        model = make_model([other], [("x", F32, [1])], [("y", F32, [1])], domains=("com.microsoft",))
        with support.Stderr() as stderr, self.assertRaises(Exception):
            ort.InferenceSession(model.SerializeToString(), session_options())
        self.assertIn("it holds a model that 'other' compiled", stderr.text)

    def test_model_compiler(self):
        folder = self.folder()
        onnx.save(mlp(), folder / "model.onnx")
        with support.Stderr():
            ort.ModelCompiler(session_options(), str(folder / "model.onnx"), embed_compiled_data_into_model=True).compile_to_file(
                str(folder / "compiled.onnx"))
        self.reload(folder / "compiled.onnx", mlp(), {"x": floats(5, 64)}, trust=1)


class Weights(OrtCase):
    def test_in_a_file_of_their_own(self):
        folder = self.folder()
        onnx.save(mlp(), folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
        session, _ = open_session(folder / "model.onnx")
        (folder / "weights.bin").unlink()
        gc.collect()
        self.assertIsNone(difference(session.run(None, {"x": floats(3, 64)}), open_reference(mlp()).run(None, {"x": floats(3, 64)})))

    def test_are_not_copied(self):
        """A model of 200 MB takes less than its size beside what ONNX Runtime has."""
        code = """
import resource, sys
sys.path.insert(0, "tests/python")
import numpy as np
from onnxruntime_support import F32, as_source, make_model, node, ort, session_options
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
model = make_model([node("Gather", "t i", "y")], [("i", 7, ["n"])], [("y", F32, None)], {"t": np.ones((50000, 1000), np.float32)})
bytes = as_source(model); del model
settings = session_options(severity=3) if sys.argv[-1] == "fusec" else ort.SessionOptions()
session = ort.InferenceSession(bytes, settings)
session.run(None, {"i": np.array([3, 7])})
print(peak())
"""
        peaks = {name: int(run_python("import sys; sys.argv.append('%s')\n%s" % (name, code))[1]) for name in ("fusec", "cpu")}
        self.assertLess(peaks["fusec"] - peaks["cpu"], 150, peaks)


class Page(OrtCase):
    def test_programs_of_the_page(self):
        for code, shown in programs("docs/onnxruntime.md"):
            status, out, err = run_python("import sys; sys.path.append('bindings/onnxruntime/python')\n" + code)
            self.assertEqual((status, out), (0, shown), err)

    def test_sample(self):
        done = subprocess.run([sys.executable, "samples/python/onnxruntime_digits.py"], capture_output=True, text=True, cwd=ROOT,
                              env={**os.environ, "PYTHONPATH": "bindings/onnxruntime/python"})
        self.assertEqual(done.stdout, "99.44 % (358 of 360)\n", done.stderr)


class Faults(OrtCase):
    def test_index_out_of_range(self):
        model = make_model([node("Gather", "t i", "y")], [("i", I64, ["n"])], [("y", F32, None)], {"t": floats(10, 300)})
        session, _ = open_session(model)
        with self.assertRaisesRegex(Exception, "fusec: "):
            session.run(None, {"i": np.array([3, 11])})
        self.assertIsNone(difference(session.run(None, {"i": np.array([3, 9])}), open_reference(model).run(None, {"i": np.array([3, 9])})))

    def test_weights_outlive_the_model(self):
        model = mlp()
        session, _ = open_session(model)
        wanted = open_reference(model).run(None, {"x": floats(3, 64)})
        del model
        gc.collect()
        waste = [np.ones(64 * 48, np.float32) for _ in range(2000)]
        self.assertIsNone(difference(session.run(None, {"x": floats(3, 64)}), wanted))
        del waste
