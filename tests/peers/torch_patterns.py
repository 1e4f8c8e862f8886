#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the graphs of tests/patterns as PyTorch functions on one GPU, to compare with `fusec bench --patterns`.

  python3 tests/peers/torch_patterns.py OUT.json [--jobs 8] [--only NAME,...] [--fusec FUSEC.json]

Modes: eager, compile (torch.compile) and max-autotune (without CUDA graphs). Microseconds, median, L2 flushed, random data. --jobs
compiles in so many processes first, into Inductor's cache; then one process measures. --fusec prints our times of the same
call beside them, and the ratio of the best mode to ours."""
import argparse
import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
import triton.testing

f16, f32, bf16 = torch.float16, torch.float32, torch.bfloat16
CASES = {}


def tensor(*shape, dtype=f32):
    return torch.randn(*shape, device="cuda").to(dtype)


def case(name, *inputs):
    """Registers a function with (shape, dtype) of each input; tensors are made when the case runs."""
    def register(function):
        CASES[name] = (function, inputs)
        return function
    return register


def hardswish(x):
    return x * torch.clamp(x + 3, 0, 6) / 6


case("add_f32_8192x8192", ((8192, 8192), f32), ((8192, 8192), f32))(lambda x, y: x + y)
case("hswish_f32_1x960x7x7", ((1, 960, 7, 7), f32))(hardswish)
case("hswish_f32_32x240x28x28", ((32, 240, 28, 28), f32))(hardswish)
case("bias_gelu_f16_8192x16384", ((8192, 16384), f16), ((16384,), f16))(lambda x, b: F.gelu(x + b))
case("swiglu_bf16_8192x14336", ((8192, 14336), bf16), ((8192, 14336), bf16))(lambda x, y: F.silu(x) * y)
case("bn_relu_add_f16_128x256x56x56", ((128, 256, 56, 56), f16), ((128, 256, 56, 56), f16), ((256, 1, 1), f16), ((256, 1, 1), f16))(
    lambda x, y, scale, shift: F.relu(x * scale + shift + y))
case("softmax_f16_16384x2048", ((16384, 2048), f16))(lambda x: torch.softmax(x.float(), -1).half())
case("softmax_f32_256x128256", ((256, 128256), f32))(lambda x: torch.softmax(x, -1))
case("softmax_prim_f32_8192x8192", ((8192, 8192), f32))(lambda x: torch.softmax(x, -1))
case("layernorm_f32_32768x768", ((32768, 768), f32), ((768,), f32), ((768,), f32))(lambda x, w, b: F.layer_norm(x, (768,), w, b))
case("layernorm_f32_4096x16384", ((4096, 16384), f32), ((16384,), f32), ((16384,), f32))(lambda x, w, b: F.layer_norm(x, (16384,), w, b))
case("layernorm_res_f16_16384x4096", ((16384, 4096), f16), ((16384, 4096), f16), ((4096,), f16), ((4096,), f16))(
    lambda x, y, w, b: F.layer_norm(x + y, (4096,), w, b))
case("groupnorm_silu_f16_16x512x64x64", ((16, 512, 64, 64), f16), ((512,), f16), ((512,), f16))(
    lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)))
case("transpose_f32_8192x8192", ((8192, 8192), f32))(lambda x: (x.t() * 2).contiguous())
case("transpose0213_f16_32x1024x16x64", ((32, 1024, 16, 64), f16))(lambda x: (x.permute(0, 2, 1, 3) * 0.125).contiguous())
case("nchw2nhwc_add_f16_64x256x56x56", ((64, 256, 56, 56), f16), ((64, 56, 56, 256), f16))(lambda x, y: x.permute(0, 2, 3, 1).contiguous() + y)
case("colsum_f32_65536x1024", ((65536, 1024), f32))(lambda x: x.sum(0))
case("rowsum_f32_65536x1024", ((65536, 1024), f32))(lambda x: (x * x).sum(1))
case("fullsum_f32_8192x8192", ((8192, 8192), f32))(lambda x: x.abs().sum())
case("chanmean_f16_64x2048x7x7", ((64, 2048, 7, 7), f16))(lambda x: F.relu(x).mean((2, 3)))
case("cast_f32_f16_8192x8192", ((8192, 8192), f32))(lambda x: x.half())
case("concat_relu_f16_64x256x56x56", ((64, 128, 56, 56), f16), ((64, 128, 56, 56), f16))(lambda x, y: F.relu(torch.cat((x, y), 1)))
case("outer_f32_16384x8192", ((16384, 1), f32), ((1, 8192), f32))(lambda x, y: torch.exp(-((x - y) * (x - y))))
case("se_scale_f16_128x256x56x56", ((128, 256, 56, 56), f16), ((128, 256, 1, 1), f16))(lambda x, s: x * torch.sigmoid(s))
case("slice_pad_f32_64x64x112x112", ((64, 64, 112, 112), f32))(lambda x: F.pad(x[:, :, :111, :111] * 2, (1, 0, 1, 0)))
case("masked_softmax_f16_16x16x1024x1024", ((16, 16, 1024, 1024), f16), ((16, 1, 1, 1024), f32))(
    lambda x, mask: torch.softmax((x * 0.125).float() + mask, -1).half())


@case("chain20_f32_8192x8192", ((8192, 8192), f32), ((8192, 8192), f32))
def chain(x, y):
    for i in range(5):
        x = torch.tanh(x * 0.5 + y) * (1 + 0.01 * i)
        x = torch.where(x > 0.3, x, x * 0.1)
    return x


@case("rmsnorm_bf16_8192x8192", ((8192, 8192), bf16), ((8192,), bf16))
def rms_norm(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, True) + 1e-6)).bfloat16() * w


@case("quant_f16_i8_8192x8192", ((8192, 8192), f16), ((8192, 1), f16))
def quantize(x, scale):
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


@case("lstm_cell_f32_8192x1024", ((8192, 4096), f32), ((8192, 1024), f32))
def lstm_cell(gates, state):
    i, f, g, o = gates.chunk(4, 1)
    state = torch.sigmoid(f) * state + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(state), state


@case("adam_f32_8192x4096", *(((8192, 4096), f32),) * 4)
def adam(p, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * m / (v.abs().sqrt() + 1e-8), m, v


@case("gelu_backward_f16_8192x16384", ((8192, 16384), f16), ((8192, 16384), f16))
def gelu_backward(x, dy):
    return torch.ops.aten.gelu_backward(dy, x, approximate="tanh")


@case("rope_bf16_8x32x2048x128", ((8, 32, 2048, 128), bf16), ((2048, 64), bf16), ((2048, 64), bf16))
def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


MODES = {"eager": None, "compile": {}, "max-autotune": {"mode": "max-autotune-no-cudagraphs"}}


def prepared(name, mode):
    function, inputs = CASES[name]
    arguments = [tensor(*shape, dtype=dtype) for shape, dtype in inputs]
    if name.startswith("quant"):
        arguments[1] = arguments[1].abs() + 0.1
    if MODES[mode] is not None:
        torch._dynamo.reset()
        function = torch.compile(function, fullgraph=True, dynamic=False, **MODES[mode])
    function(*arguments)
    torch.cuda.synchronize()
    return lambda: function(*arguments)


def in_processes(args, names):
    """Fills Inductor's cache: process k compiles every k-th case."""
    running = [subprocess.Popen([sys.executable, __file__, "-", "--only", ",".join(names[k::args.jobs]), "--jobs", "0"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for k in range(min(args.jobs, len(names)))]
    for process in running:
        process.wait()


def measured(name):
    row = {}
    for mode in MODES:
        try:
            row[mode] = triton.testing.do_bench(prepared(name, mode), warmup=10, rep=40, return_mode="median") * 1e3
        except Exception as error:  # a case that PyTorch does not take is a row, not an end
            row[mode + "_error"] = f"{type(error).__name__}: {str(error)[:120]}"
    torch.cuda.empty_cache()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", default=",".join(sorted(CASES)))
    parser.add_argument("--fusec")
    args = parser.parse_args()
    names = args.only.split(",")
    if args.jobs == 0:  # one of the processes that compile
        for name in names:
            for mode in list(MODES)[1:]:
                prepared(name, mode)
        return
    in_processes(args, names)
    ours = {row["pattern"]: row["median_ms"] * 1e3 for row in json.loads(pathlib.Path(args.fusec).read_text())["patterns"]} if args.fusec else {}
    rows = {}
    print(f"{'pattern':<40}{'eager':>9}{'compile':>9}{'autotune':>9}{'fusec':>9}{'best/fusec':>11}")
    for name in names:
        row = rows[name] = measured(name)
        times = [row.get(mode, float("nan")) for mode in MODES]
        best = min((t for t in times if t == t), default=float("nan"))
        mine = row["fusec"] = ours.get(name, float("nan"))
        print(f"{name:<40}" + "".join(f"{t:>9.1f}" for t in [*times, mine]) + f"{best / mine:>11.3f}", flush=True)
    pathlib.Path(args.out).write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "patterns": rows}, indent=1))


if __name__ == "__main__":
    main()
