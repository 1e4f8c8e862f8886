# SPDX-License-Identifier: Apache-2.0
"""Ops of torch, each alone: strict, so that fusec takes every node, and compared with eager."""
import torch_support  # first: it skips these tests where PyTorch is missing
import torch
import torch.nn.functional as F
from torch_support import TorchCase

FLOATS, INTS, BOOLS = (torch.float32, torch.float16, torch.bfloat16), (torch.int64, torch.int32, torch.uint8), (torch.bool,)
TOLERANCE = {torch.float16: 3e-3, torch.bfloat16: 2e-2}


def values(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + len(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(1, 9, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


UNARY = ("abs neg sign sqrt rsqrt reciprocal exp expm1 log log1p tanh sigmoid erf sin cos tan asin acos atan sinh cosh asinh atanh floor ceil trunc "
         "round square isnan isinf log2 exp2 erfc logical_not").split()
ACTIVATIONS = ("relu silu mish hardswish hardsigmoid gelu leaky_relu elu celu selu softplus softsign relu6 logsigmoid hardtanh tanhshrink").split()
BINARY = "add sub mul div maximum minimum eq ne lt le gt ge fmod remainder atan2 logical_and logical_or logical_xor".split()


class Pointwise(TorchCase):
    def test_unary(self):
        for dtype in FLOATS:
            x = torch.cat([values(40, dtype=dtype), torch.tensor([0.0, -0.0, 1, -1, 2.5, -3.5, float("inf"), float("nan")], dtype=dtype)])
            self.check(lambda x: [getattr(torch, name)(x) for name in UNARY], x, tolerance=TOLERANCE.get(dtype, 1e-5))

    def test_unary_of_integers(self):
        names = "abs neg sign sqrt exp log sin floor ceil round square logical_not bitwise_not reciprocal sigmoid".split()
        for dtype in (torch.int64, torch.int32):
            self.check(lambda x: [getattr(torch, name)(x) for name in names], values(9, dtype=dtype) - 4)
        self.check(lambda x: (~x, x.logical_not(), x.float()), values(9, dtype=torch.bool))

    def test_activations(self):
        for dtype in FLOATS:
            x = torch.cat([values(40, dtype=dtype), torch.tensor([0.0, 3, -3, 30, -30], dtype=dtype)])
            self.check(lambda x: [getattr(F, name)(x) for name in ACTIVATIONS] + [F.gelu(x, approximate="tanh"), F.softplus(x, 2, 5),
                                                                                  F.elu(x, 0.5)], x,
                       tolerance=TOLERANCE.get(dtype, 1e-5))

    def test_binary(self):
        for dtype in FLOATS:
            names = [name for name in BINARY if name != "atan2"]
            self.check(lambda x, y: [getattr(torch, name)(x, y) for name in names], values(5, 7, dtype=dtype), values(7, dtype=dtype, seed=1),
                       tolerance=TOLERANCE.get(dtype, 1e-5))

    def test_binary_of_integers(self):
        names = "add sub mul div maximum minimum eq ne lt le gt ge fmod remainder bitwise_and bitwise_or bitwise_xor floor_divide".split()
        for dtype in (torch.int64, torch.int32):
            self.check(lambda x, y: [getattr(torch, name)(x, y) for name in names], values(5, 7, dtype=dtype) - 5,
                       values(7, dtype=dtype, seed=1))
        self.check(lambda x, y: (x & y, x | y, x ^ y, x == y, x < y, x + y, x * y), values(9, dtype=torch.bool),
                   values(9, dtype=torch.bool, seed=3))

    def test_promotion(self):
        x, y, z = values(4), values(4, dtype=torch.int64), values(4, dtype=torch.bfloat16)
        self.check(lambda x, y, z: (x + y, y / 2, y + 2.5, x * z, y > x, z == y, y // 2, y % 3, 2 ** y, 1 - z, x + True, y.bool() + 1), x, y, z)

    def test_numbers(self):
        self.check(lambda x: (x + 2, 2 - x, x * 3, 1 / x, x ** 2, x ** 3, x ** 0.5, x ** -1.5, 2 ** x, torch.add(x, x, alpha=3),
                              torch.sub(x, x, alpha=2),
                              torch.rsub(x, 1)), values(6).abs())
        self.check(lambda x: (x + 9007199254740993, x * -1, x == 9223372036854775807), values(6, dtype=torch.int64))

    def test_division_with_rounding(self):
        x, y = torch.tensor([7.0, -7, 6, 0.3, -0.3, 1.0]), torch.tensor([2.0, 2, -3, 0.1, 0.1, 0.1])
        for mode in ("floor", "trunc"):
            self.check(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)
            self.check(lambda x, y: torch.div(x, y, rounding_mode=mode), x.long(), torch.tensor([2, 2, -3, 1, 5, -1]))

    def test_choices(self):
        x, y = values(3, 4), values(4, seed=1)
        self.check(lambda x, y: (torch.where(x > 0, x, y), torch.where(x > y, 1.0, x), x.masked_fill(x < 0, 7), x.clamp(-0.5, 0.5),
                                 x.clamp(min=0.1),
                                 x.clamp(max=0.2), torch.clamp(x, y - 1, y), torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=2)), x, y)

    def test_casts(self):
        x = torch.tensor([0.0, 1.5, -1.5, 2.0, 300.0])
        self.check(lambda x: [x.to(t) for t in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
                                                torch.bool)], x[:4])
        self.check(lambda x: [x.to(t) for t in (torch.uint8, torch.int16)], x.abs()[:4])


class Moves(TorchCase):
    def test_views(self):
        self.check(lambda x: (x.reshape(6, 4) + 1, x.view(-1) * 2, x.permute(2, 0, 1) + 1, x.transpose(0, 2) * 2, x.unsqueeze(1) + 1,
                              x[:, None].squeeze(1) + 1,
                              x.flatten(1) + 1, x[0].t() * 2, x.expand(5, 2, 3, 4) + 1, x.repeat(2, 1, 3), x.movedim(0, 2) * 1), values(2, 3, 4))

    def test_slices(self):
        self.check(lambda x: (x[1:3] * 1, x[:, -2:] * 1, x[::2] * 1, x[:, 1] * 1, x[-1] * 1, x[..., None, 1:] * 1, x[10:] * 1,
                              x[:, 2:100] * 1), values(5, 4))
        self.check(lambda x: [p * 1 for p in x.split(2, 1)] + [p * 1 for p in x.split([1, 3], 1)] + [p * 1 for p in x.unbind(0)] +
                   [p * 1 for p in x.chunk(2, 0)], values(5, 4))

    def test_joins(self):
        self.check(lambda x, y: (torch.cat([x, y], 1), torch.cat([x, x.double()], 0), torch.stack([x, x], -1), torch.cat([torch.zeros(0),
                                                                                                                          x[0]])), values(3, 4),
                   values(3, 2))

    def test_pads_flips_and_triangles(self):
        self.check(lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 0, 0, 3), value=2.5), F.pad(x, (-1, 2)), F.pad(x[None], (1, 2), mode="reflect"),
                              F.pad(x[None], (3, 1), mode="replicate"), x.flip(0), x.flip(0, 1), x.roll(1,
                                                                                                        0), x.tril(), x.triu(1), x.tril(-1)), values(4, 5))

    def test_numbers_in_a_row(self):
        self.check(lambda x: (torch.arange(5), torch.arange(1, 9, 2), torch.arange(0.0, 1.0, 0.25), x + torch.arange(4), torch.ones(2, 3),
                              torch.zeros_like(x),
                              torch.full((2,), 7), torch.eye(3), torch.linspace(0, 1, 5)), values(4))

    def test_gathers(self):
        x, i, j = values(5, 4), torch.tensor([[0, 4], [2, -1]]), torch.tensor([1, 3])
        self.check(lambda x, i, j: (x[i], x[:, j], x[i, j], F.embedding(i % 5, x), x.index_select(1, j), x.gather(0, i % 5),
                                    torch.take_along_dim(x[:2], i % 4, 1)),
                   x, i, j)
        self.check(lambda x, j: (x[:, j, j], x[j, :, j], x[:, j][:, :, j]), values(4, 5, 6), j)

    def test_scatters(self):
        x, i, s = values(5, 4), torch.tensor([[0, 4], [2, 1]]), values(2, 2, seed=5)
        self.check(lambda x, i, s: (x.scatter(0, i, s), x.scatter(1, i % 4, 2.0), x.scatter_add(0, i, s), x.scatter_reduce(0, i, s, "amax"),
                                    x.index_put((i[0], i[1]), s[0]), x.index_put((i[0],), x[:2], accumulate=True), x.index_add(0, i[0], x[:2]),
                                    x.index_copy(0, i[0], x[:2])), x, i, s)
        self.check(lambda x, s: (x.slice_scatter(s, 0, 1, 3), x.select_scatter(s[0], 0, 2), x.masked_fill(x > 0, 0)), x, values(2, 4))

        def assign(x):
            x = x.clone()
            x[1:3] = 7
            x[:, 0] += 1
            return x
        self.check(assign, x)

    def test_resizing(self):
        x = values(2, 3, 4, 6)
        self.check(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(8, 9)), F.interpolate(x, size=(7, 9), mode="bilinear"),
                              F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True), F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
                              F.pixel_unshuffle(x, 2), F.unfold(x, 2), x.unfold(3, 3, 2) + 0), x)


class Reductions(TorchCase):
    def test_sums_and_extremes(self):
        for dtype in FLOATS:
            self.check(lambda x: (x.sum(), x.sum(0), x.mean(1, keepdim=True), x.mean((0, 2)), x.amax(1), x.amin((0, 1)), x.max(), x.min(),
                                  x.prod(1),
                                  x.max(1).values, x.min(2).indices, x.argmax(1), x.argmin(), x.argmax(0,
                                                                                                       keepdim=True), x.sum(dtype=torch.float64)),
                       values(3, 4, 5, dtype=dtype), tolerance=TOLERANCE.get(dtype, 1e-5) * 4)

    def test_of_integers_and_flags(self):
        self.check(lambda x: (x.sum(), x.sum(0), x.amax(1), x.prod(0), x.cumsum(0), x.any(), x.all(1), x.argmax(1)),
                   values(3, 4, dtype=torch.int64))
        self.check(lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True), x.sum()), values(3, 4, dtype=torch.bool))

    def test_moments_and_norms(self):
        self.check(lambda x: (x.var(), x.var(1), x.var(0, correction=0), x.std(1, keepdim=True), *torch.var_mean(x, 1), x.norm(),
                              x.norm(dim=1), x.norm(p=1, dim=0),
                              torch.linalg.vector_norm(x, float("inf")), F.normalize(x, dim=1), torch.logsumexp(x, 1)), values(6, 5))

    def test_scans_and_orders(self):
        self.check(lambda x: (x.cumsum(1), x.softmax(1), x.log_softmax(0), *x.topk(2), *x.topk(3, 0, largest=False), *x.sort(1),
                              *x.sort(1, descending=True),
                              x.argsort(0)), values(4, 6))

    def test_softmax_without_any_element(self):
        self.check(lambda x: (x.softmax(1), x.log_softmax(1)), torch.tensor([[float("-inf")] * 3, [0.0, 1, float("-inf")]]))


class Networks(TorchCase):
    def test_products(self):
        a, b, v = values(3, 4, 5), values(3, 5, 6), values(5)
        self.check(lambda a, b, v: (a @ b, a[0] @ b[0], a @ v, v @ b[0], v @ v, torch.addmm(b[0, :4], a[0], b[0], beta=0.5, alpha=2),
                                    torch.baddbmm(a @ b, a, b),
                                    torch.einsum("bij,bjk->ik", a, b), F.linear(a, b[0].t()), F.linear(a, b[0].t(),
                                                                                                       v.new_ones(6))), a, b, v, tolerance=1e-4)

    def test_convolutions(self):
        x, w = values(2, 4, 9, 8), values(6, 2, 3, 3)
        self.check(lambda x, w: (F.conv2d(x, w, stride=2, padding=1, groups=2), F.conv2d(x, w, groups=2, dilation=2, padding=(2, 0),
                                                                                         bias=w[:, 0, 0, 0]),
                                 F.conv1d(x[:, :, 0], w[:4, :, 0], groups=2), F.conv2d(x, w, padding="same", groups=2)), x, w, tolerance=1e-4)
        self.check(lambda x, w: F.conv3d(x, w), values(1, 2, 5, 5, 5), values(3, 2, 2, 2, 2), tolerance=1e-4)

    def test_transposed_convolutions(self):
        x = values(2, 4, 5, 6)
        for options in ({}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"stride": (1, 3), "padding": (0, 1)},
                        {"dilation": 2, "stride": 2}):
            for groups, filters in ((1, values(4, 3, 3, 3)), (2, values(4, 3, 3, 3, seed=1))):
                self.check(lambda x, w: F.conv_transpose2d(x, w, groups=groups, **options), x, filters, tolerance=1e-4)

    def test_pools(self):
        x = values(2, 3, 8, 9)
        self.check(lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, ceil_mode=True), F.max_pool2d(x[0], 2),
                              F.avg_pool2d(x, 2),
                              F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 1),
                              F.adaptive_avg_pool2d(x, (4, 3)), F.avg_pool1d(x[0], 3)), x)

    def test_normalizations(self):
        x, w, b = values(4, 6, 5), values(6) + 2, values(6, seed=3)
        self.check(lambda x, w, b: (F.batch_norm(x, b, w.abs(), w, b), F.batch_norm(x, b, w.abs()), F.group_norm(x, 3, w, b), F.group_norm(x, 2),
                                    F.instance_norm(x), F.layer_norm(x, (5,)), F.layer_norm(x, (6, 5)), F.layer_norm(x.mT, (6,), w, b, 1e-3),
                                    F.rms_norm(x.mT, (6,), w), F.rms_norm(x, (5,), eps=1e-3)), x, w, b, tolerance=1e-4)

    def test_attentions(self):
        q, k, v = values(2, 4, 5, 8), values(2, 4, 7, 8, seed=1), values(2, 4, 7, 8, seed=2)
        mask = values(2, 1, 5, 7, seed=3)
        keep = mask > -1
        self.check(lambda q, k, v, m, b: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, m),
                                          F.scaled_dot_product_attention(q, k, v, b),
                                          F.scaled_dot_product_attention(k, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v,
                                                                                                                                  scale=0.3),
                                          F.scaled_dot_product_attention(q, k[:, :2], v[:, :2],
                                                                         enable_gqa=True)), q, k, v, mask, keep, tolerance=1e-4)

    def test_fused_encoder_layers(self):
        for first in (False, True):
            layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=first).eval()
            self.check(layer, values(2, 5, 16), tolerance=1e-4)


assert torch_support
