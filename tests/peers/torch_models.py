#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times models under PyTorch on one GPU, to compare with `fusec bench` of the same models.

  python3 tests/peers/torch_models.py OUT.json --models poolformer_s12,edgenext_small --cells f16x1,f16x64 [--jobs 4]
      [--modes eager,graph,reduce-overhead] [--fusec FOLDER]

Milliseconds a batch: median of runs that each end with a wait for the device; random weights and inputs, channels last for images in 16
bits; f32 is computed in f32, without TF32. graph: eager in a CUDA graph. reduce-overhead: torch.compile. --jobs compiles in so many processes first, into Inductor's
cache. --fusec FOLDER prints the times of NAME.CELL.json there, as `fusec bench MODEL --json` wrote them, and the ratio
of the best mode to ours. torchvision, timm and transformers define the models."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

TIMM = {"edgenext_small": "edgenext_small", "poolformer_s12": "poolformer_s12", "mixer_b16": "mixer_b16_224"}
# Class, class of its configuration, arguments of both.
TRANSFORMERS = {"bert_base": ("BertModel", "BertConfig", {"add_pooling_layer": False}, {}),
                "gpt2": ("GPT2Model", "GPT2Config", {}, {"use_cache": False}),
                "llama_4l": ("LlamaModel", "LlamaConfig", {}, {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
                                                               "num_key_value_heads": 8, "intermediate_size": 2816,
                                                               "vocab_size": 32000, "use_cache": False})}
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def model_of(name):
    """The model, and a function that makes its input for a batch."""
    def images(batch):
        return torch.randn(batch, 3, 224, 224, device="cuda")

    if name in TRANSFORMERS:
        import transformers
        model, config, of_model, of_config = TRANSFORMERS[name]
        inner = getattr(transformers, model)(getattr(transformers, config)(attn_implementation="sdpa", **of_config), **of_model)

        class FirstOutput(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, tokens):
                return self.inner(tokens)[0]

        return FirstOutput(), lambda batch: torch.randint(0, 30000, (batch, 128), device="cuda")
    if name in TIMM:
        import timm
        return timm.create_model(TIMM[name], pretrained=False), images
    import torchvision
    return getattr(torchvision.models, name)(weights=None), images


def prepared(name, cell):
    dtype, batch = cell.split("x")
    model, inputs = model_of(name)
    model, x = model.cuda().eval().to(TYPES[dtype]), inputs(int(batch))
    if x.is_floating_point():
        x = x.to(TYPES[dtype])
        if dtype != "f32":
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return model, x


def in_mode(model, x, mode):
    if mode == "eager":
        return lambda: model(x)
    if mode == "graph":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
        return graph.replay
    torch._dynamo.reset()
    compiled = torch.compile(model, mode=mode, dynamic=False)
    compiled(x)
    return lambda: compiled(x)


def median_ms(call, seconds):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 10 or (time.perf_counter() < end and len(times) < 1000):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def compile_first(args, cells):
    """Fills Inductor's cache: each process compiles one cell, `jobs` at a time."""
    waiting, running = list(cells), []
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < args.jobs:
            name, cell = waiting.pop()
            running.append(subprocess.Popen([sys.executable, __file__, "-", "--models", name, "--cells", cell, "--modes", "reduce-overhead", "--jobs", "0"],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", required=True)
    parser.add_argument("--cells", default="f16x1,f16x64")
    parser.add_argument("--modes", default="eager,graph,reduce-overhead")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5, help="measured per mode")
    parser.add_argument("--fusec")
    args = parser.parse_args()
    cells = [(name, cell) for name in args.models.split(",") for cell in args.cells.split(",")]
    modes = args.modes.split(",")
    if args.jobs and "reduce-overhead" in modes:
        compile_first(args, cells)
    rows = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, cell in cells:
        row = {}
        with torch.inference_mode():
            for mode in modes:
                try:
                    model, x = prepared(name, cell)
                    row[mode] = median_ms(in_mode(model, x, mode), args.seconds if args.jobs else 0)
                except Exception as error:  # a model that PyTorch does not take so is a row, not an end
                    row[mode + "_error"] = f"{type(error).__name__}: {str(error)[:160]}"
                torch.cuda.empty_cache()
        if args.jobs == 0:
            continue
        ours = pathlib.Path(args.fusec or "/", f"{name}.{cell}.json")
        if args.fusec and ours.exists() and ours.stat().st_size:
            row["fusec"] = json.loads(ours.read_text())["median_ms"]
            row["best_peer_over_fusec"] = min(row[mode] for mode in modes if mode in row) / row["fusec"]
        rows[f"{name}/{cell}"] = row
        print(f"{name} {cell}", {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        pathlib.Path(args.out).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
