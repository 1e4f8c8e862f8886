# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="fusec") on a GPU: streams, captures, devices."""
import unittest

import torch_support
import torch
from torch_support import TorchCase

import fusec

GPU = torch.cuda.is_available() and any(d["device"].startswith("cuda") for d in fusec.devices())


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 64, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)).eval().cuda()


@unittest.skipUnless(GPU, "no GPU here")
class Gpu(TorchCase):
    def test_results(self):
        module = network()
        compiled = self.compiled(module)
        with torch.no_grad():
            for n in (2, 3, 8):
                x = torch.randn(n, 3, 8, 8, device="cuda")
                torch._dynamo.mark_dynamic(x, 0)
                got = compiled(x)
                self.assertEqual(got.device, x.device)
                torch.testing.assert_close(got, module(x), rtol=1e-3, atol=1e-3)

    def test_half_precision(self):
        module = network().bfloat16()
        x = torch.randn(4, 3, 8, 8, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            torch.testing.assert_close(self.compiled(module)(x), module(x), rtol=5e-2, atol=5e-2)

    def test_the_current_stream(self):
        compiled = self.compiled(lambda x: x * 2 + 1)
        x = torch.zeros(1 << 22, device="cuda")
        compiled(x)
        streams = [torch.cuda.Stream() for _ in range(2)]
        for i in range(20):
            stream = streams[i % 2]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1_000_000)
                x = x + 1
                y = compiled(x)
            torch.cuda.current_stream().wait_stream(stream)
            self.assertEqual(y.unique().tolist(), [2 * (i + 1) + 1])

    def test_captured_in_a_graph(self):
        module = network()
        compiled = self.compiled(module)
        x = torch.randn(4, 3, 8, 8, device="cuda")
        with torch.no_grad():
            compiled(x)  # compiles before the capture
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = compiled(x)
                z = compiled(x * 2)
            for _ in range(3):
                x.copy_(torch.randn_like(x))
                graph.replay()
                torch.testing.assert_close(y, module(x), rtol=1e-3, atol=1e-3)
                torch.testing.assert_close(z, module(x * 2), rtol=1e-3, atol=1e-3)
                compiled(x)  # runs beside the graph use other memory

    def test_training(self):
        ours, theirs = network().train(), network().train()
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(4, 3, 8, 8, device="cuda")
        self.compiled(ours, strict=False)(x).square().sum().backward()
        theirs(x).square().sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-2, atol=1e-2)


assert torch_support
