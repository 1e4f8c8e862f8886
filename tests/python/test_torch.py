# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="fusec"): registration, shapes, weights, layouts, what stays with torch, training, threads."""
import threading
import unittest.mock

import torch_support
import torch
from torch_support import TorchCase

import fusec
import fusec.torch
from fusec import _engine
from fusec.torch import _piece
from support import PACKAGE, programs, run_python


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()


class Compiles:
    """The engines that were compiled."""

    def __enter__(self):
        self.engines, original = [], _engine.compile

        def compile(*arguments, **options):
            self.engines.append(original(*arguments, **options))
            return self.engines[-1]
        self._patch = unittest.mock.patch.object(_engine, "compile", compile)
        self._patch.start()
        return self

    def __exit__(self, *_):
        self._patch.stop()

    def __len__(self):
        return len(self.engines)


class Registration(TorchCase):
    def entry_point(self):
        """A folder for sys.path in which the entry point is installed."""
        folder = self.folder() / "fusec_test-0.dist-info"
        folder.mkdir()
        project = (PACKAGE.parent / "compiler" / "pyproject.toml").read_text()
        (line,) = [line for line in project.splitlines() if line.startswith("fusec = ")]
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fusec-test\nVersion: 0\n")
        (folder / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + line.replace('"', "") + "\n")
        return folder.parent

    def test_found_by_entry_point(self):
        code = """
import sys, torch
assert "fusec" in torch._dynamo.list_backends() and "fusec" not in sys.modules
f = torch.compile(lambda x: x * 2, backend="fusec", options={"strict": True})
assert f(torch.ones(3)).tolist() == [2, 2, 2] and "fusec.torch" in sys.modules
"""
        status, _, errors = run_python(code, PYTHONPATH=f"{PACKAGE.parent}:{self.entry_point()}")
        self.assertEqual(status, 0, errors)

    def test_the_page_prints_what_it_shows(self):
        found = programs("docs/torch.md")
        self.assertEqual(len(found), 2)
        for program, shown in found:
            status, output, errors = run_python(program, PYTHONPATH=f"{PACKAGE.parent}:{self.entry_point()}")
            self.assertEqual((status, output), (0, shown), program + errors)

    def test_fusec_alone_imports_no_torch(self):
        status, _, errors = run_python("import sys, fusec; assert 'torch' not in sys.modules")
        self.assertEqual(status, 0, errors)

    def test_options(self):
        for options, says in (({"strikt": True}, "'strikt' is no option"), ({"device": "cuda"}, "the device is that of the tensors")):
            with self.assertRaisesRegex(Exception, says):
                torch.compile(mlp(), backend=fusec.torch.backend, options=options)(torch.ones(1, 8))
        with self.assertRaisesRegex(Exception, "mode 'max-autotune' is one of Inductor"):
            fusec.torch.backend(None, [], mode="max-autotune")
        self.check(mlp(), torch.randn(2, 8), numerics="exact")


class Shapes(TorchCase):
    def test_one_compile_for_all_sizes(self):
        module = mlp()
        compiled = self.compiled(module, dynamic=True)
        with torch.no_grad(), Compiles() as engines:
            before = graphs()
            for n in (2, 3, 17, 100):
                x = torch.randn(n, 8)
                self.same(compiled(x), module(x))
            self.assertEqual((graphs() - before, len(engines)), (1, 1))

    def test_the_range_of_a_symbol(self):
        x = torch.randn(4, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=50)
        with Compiles() as engines:
            self.compiled(lambda x: x + 1)(x)
        (engine,) = engines.engines
        session = engine.session()
        self.assertEqual(session.run(torch.zeros(50, 3)).shape, (50, 3))
        for n in (1, 51):
            with self.assertRaisesRegex(fusec.InvalidArgument, "must be 2 to 50"):
                session.run(torch.zeros(n, 3))

    def test_sizes_that_no_tensor_has(self):
        self.check(lambda x, n: (x * n, torch.arange(n) + n), torch.randn(3), 7, dynamic=True)

    def test_sizes_that_are_expressions(self):
        def f(x):
            y = x[:, 1:-1, ::2].flatten(1)
            return torch.cat([y, y[:, : y.shape[1] // 3]], 1), x.shape[1] * 2, torch.ones(x.shape[1] - 1, x.shape[2] % 3 + 1)
        compiled = self.compiled(f, dynamic=True)
        for shape in ((2, 5, 6), (3, 7, 9), (2, 12, 4)):
            x = torch.randn(shape)
            self.same(compiled(x), f(x))

    def test_sizes_that_torch_only_compares(self):
        """A concat makes torch compare sizes that are different expressions."""
        def f(x):
            halves = torch.nn.functional.avg_pool2d(x, 2)
            return torch.cat([torch.nn.functional.interpolate(halves, scale_factor=2.0), x], 1) * 2
        compiled = self.compiled(f, dynamic=True)
        for n in (4, 6, 10):
            x = torch.randn(2, 3, n, n)
            self.same(compiled(x), f(x))

    def test_no_elements(self):
        self.check(lambda x: (x + 1, x.sum(0), torch.cat([x, x])), torch.ones(0, 3))

    def test_results_that_are_not_computed(self):
        def f(x, y):
            z = x + y
            return z, x, None, z, 3, y.shape[0], z * 2
        self.check(f, torch.randn(3), torch.randn(3))
        self.check(lambda x: x, torch.ones(2))
        self.check(lambda x: (x.view(-1), x.t()), torch.ones(2, 3))

    def test_inputs_that_are_written(self):
        def f(x, cache):
            cache[:, 2] = x
            cache += 1
            return cache * 2
        ours, theirs = torch.zeros(3, 4), torch.zeros(3, 4)
        self.same(self.compiled(f)(torch.ones(3), ours), f(torch.ones(3), theirs))
        self.same(ours, theirs)


class Weights(TorchCase):
    def test_are_constants_that_share_memory(self):
        module = mlp()
        with torch.no_grad(), Compiles() as engines:
            self.compiled(module)(torch.randn(2, 8))
        self.assertEqual(len(engines.engines[0].inputs), 1)

    def test_changes_are_noticed(self):
        module, x = mlp(), torch.randn(2, 8)
        compiled = self.compiled(module)
        with torch.no_grad(), Compiles() as engines:
            self.same(compiled(x), module(x))
            module.load_state_dict({name: value + 1 for name, value in module.state_dict().items()})
            self.same(compiled(x), module(x))
            self.same(compiled(x), module(x))
            self.assertEqual([len(engine.inputs) for engine in engines.engines], [1, 1])
            for _ in range(3):  # what changes again becomes an input, and changes for nothing then
                module[0].weight.mul_(0.5)
                self.same(compiled(x), module(x))
            self.assertEqual([len(engine.inputs) for engine in engines.engines], [1, 1, 2])
            module[0].weight.data = torch.randn(16, 8)
            self.same(compiled(x), module(x))

    def test_of_layers_that_share_a_function(self):
        layers, x = [mlp() for _ in range(3)], torch.randn(2, 8)

        @torch.compile(backend=fusec.torch.backend, options={"strict": True})
        def run(layer, x):
            return layer(x)
        with torch.no_grad():
            for _ in range(2):
                for layer in layers:
                    self.same(run(layer, x), layer(x))

    def test_more_sets_than_are_kept(self):
        with unittest.mock.patch.object(_piece, "_MOST_SETS", 2), torch.no_grad(), Compiles() as engines:
            compiled, x = self.compiled(lambda x, w: torch.nn.functional.linear(x, w)), torch.randn(2, 8)
            for _ in range(3):
                for seed in range(4):
                    weight = torch.nn.Parameter(torch.full((4, 8), float(seed)))
                    self.same(compiled(x, weight), x @ weight.t())
            self.assertLessEqual(len(engines), 3)

    def test_made_in_inference_mode(self):
        with torch.inference_mode():
            module, x = mlp(), torch.randn(2, 8)
            self.same(self.compiled(module)(x), module(x))

    def test_with_strides(self):
        weight = torch.nn.Parameter(torch.randn(8, 4).t())
        gaps = torch.nn.Parameter(torch.randn(4, 16)[:, ::2])
        with torch.no_grad():
            self.check(lambda x, w, g: x @ w.t() + x @ g.t(), torch.randn(2, 8), weight, gaps)


class Layouts(TorchCase):
    def test_channels_last(self):
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(),
                                     torch.nn.Conv2d(8, 4, 1)).eval().to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
        got = self.check(module, x, tolerance=1e-4)
        self.assertTrue(got.is_contiguous(memory_format=torch.channels_last))

    def test_inputs_with_strides(self):
        x = torch.randn(4, 6)
        for given in (x.t(), x[:, ::2], x[1:], x.expand(3, 4, 6), x.as_strided((3, 3), (1, 1)), x.flip(0)):
            with torch.no_grad():
                self.assertTrue(torch.equal(self.compiled(lambda x: x * 2)(given), given * 2))

    def test_results_with_strides(self):
        self.check(lambda x: ((x + 1).permute(2, 0, 1), (x * 2).transpose(0, 1), (x + 3).mT), torch.randn(2, 3, 4))


class Rest(TorchCase):
    """What stays with torch."""

    def f(self, x):
        y = torch.linalg.eigvalsh(x @ x.t() + 1)
        return (y * 2 + 1).sin() + x.sum()

    def test_is_told(self):
        x = torch.randn(4, 4)
        with self.log() as lines, torch.no_grad():
            self.same(self.compiled(self.f, strict=False)(x), self.f(x), 1e-4)
        ((level, line),) = lines
        self.assertEqual(level, "WARNING")
        self.assertRegex(line,
                         r"inference: fusec takes \d of \d nodes, in 2 pieces; torch keeps 1 aten._linalg_eigh.default \(fusec has no aten._linalg_eigh.default\)")

    def test_by_inductor(self):
        x = torch.randn(4, 4)
        self.same(self.compiled(self.f, strict=False, rest="inductor")(x), self.f(x), 1e-4)
        compiled = self.compiled(self.f, strict=False, rest="inductor", dynamic=True)
        for n in (3, 5):
            x = torch.randn(n, n)
            self.same(compiled(x), self.f(x), 1e-4)
        with self.assertRaisesRegex(Exception, "run by 'eager' or 'inductor'"):
            self.compiled(self.f, rest="nobody")(x)

    def test_is_an_error_in_strict(self):
        with self.assertRaisesRegex(Exception, r"fusec takes \d of \d nodes.*_linalg_eigh.*asks for all"):
            self.compiled(self.f)(torch.randn(4, 4))

    def test_all_taken_is_no_warning(self):
        with self.log() as lines:
            self.compiled(lambda x: x * 2 + 1)(torch.ones(3))
        self.assertEqual(lines, [("INFO", "torch.compile, inference: fusec takes 2 of 2 nodes")])

    def test_with_sizes(self):
        compiled = self.compiled(self.f, strict=False, dynamic=True)
        for n in (3, 5):
            x = torch.randn(n, n)
            self.same(compiled(x), self.f(x), 1e-4)

    def test_sizes_that_depend_on_data(self):
        def f(x):
            return (x[x > 0] * 2 + 1).sum() + x.sum()
        x = torch.randn(10)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            self.same(self.compiled(f, strict=False)(x), f(x))

    def test_an_engine_that_does_not_compile(self):
        def fail(*_, **__):
            raise fusec.CompileFailed("no kernel today")
        with unittest.mock.patch.object(_engine, "compile", fail):
            with self.log() as lines:
                self.same(self.compiled(lambda x: (x + 1, x, x * 2), strict=False)(torch.ones(3)),
                          [torch.full((3,), 2.0), torch.ones(3), torch.full((3,), 2.0)])
            self.assertIn("is run by torch: no kernel today", lines[-1][1])
            torch._dynamo.reset()
            with self.assertRaisesRegex(fusec.CompileFailed, "no kernel today"):
                self.compiled(lambda x: x + 1)(torch.ones(3))

    def test_complex_numbers(self):
        x = torch.randn(4)
        with self.log() as lines:
            self.same(self.compiled(lambda x: torch.fft.fft(x).abs() + 1, strict=False)(x), torch.fft.fft(x).abs() + 1, 1e-4)
        self.assertIn("1 aten.abs.default (fusec has no dtype torch.complex64)", lines[0][1])


class Training(TorchCase):
    def step(self, make, data, sizes, **options):
        torch.manual_seed(1)
        ours, theirs = make(), make()
        ours.load_state_dict(theirs.state_dict())
        compiled = self.compiled(ours, strict=False, **options)
        optimizers = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in (ours, theirs)]
        with self.log() as lines:
            for n in sizes:
                x, y = data(n), torch.randint(0, 5, (n,))
                for call, optimizer in zip((compiled, theirs), optimizers):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(call(x), y).backward()
                for a, b in zip(ours.parameters(), theirs.parameters()):
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
                for optimizer in optimizers:
                    optimizer.step()
        for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        self.assertTrue(any("forward: fusec takes" in line for _, line in lines))
        self.assertTrue(any("backward: fusec takes" in line for _, line in lines))

    def test_mlp(self):
        self.step(lambda: torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 16),
                                              torch.nn.SiLU(),
                                              torch.nn.Linear(16, 5)), lambda n: torch.randn(n, 20), (8, 8, 12, 5))

    def test_cnn(self):
        self.step(lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 16, 3,
                                                                                                                                  padding=1),
            torch.nn.GroupNorm(4, 16), torch.nn.SiLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 5)),
            lambda n: torch.randn(n, 3, 16, 16), (8, 8, 12))

    def test_with_inductor(self):
        self.step(lambda: torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.GELU(), torch.nn.Linear(32, 5)),
                  lambda n: torch.randn(n, 20), (8, 12),
                  rest="inductor")

    def test_dropout_stays_with_torch(self):
        compiled = self.compiled(lambda x: torch.nn.functional.dropout(x * 2, 0.5) + 1, strict=False)
        x = torch.ones(1000, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        self.assertEqual(sorted(set(y.tolist())), [1, 5])
        self.assertTrue(torch.equal(x.grad != 0, y > 1))


class Calls(TorchCase):
    def test_threads(self):
        module = mlp()
        compiled, wrong = self.compiled(module, dynamic=True), []
        with torch.no_grad():
            compiled(torch.randn(3, 8))

        def work(seed):
            with torch.no_grad():
                for n in range(2, 40):
                    x = torch.randn(n, 8, generator=torch.Generator().manual_seed(seed * 100 + n))
                    if not torch.allclose(compiled(x), module(x), atol=1e-5):
                        wrong.append((seed, n))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_results_are_new_each_time(self):
        compiled = self.compiled(lambda x: x * 2)
        first = compiled(torch.ones(3))
        second = compiled(torch.zeros(3))
        self.assertEqual((first.tolist(), second.tolist()), ([2, 2, 2], [0, 0, 0]))


assert torch_support
