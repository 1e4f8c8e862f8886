# SPDX-License-Identifier: Apache-2.0
"""Runs a package over a folder of arrays with Ray Data: every worker is a process with an engine of its own.

usage: python3 samples/ray/batch.py MODEL.fsc INPUTS OUTPUTS [--workers 2] [--threads 1] [--batch 64] [--gpu]

Each INPUTS/NAME.npy is one input without the batch, and OUTPUTS/NAME.npy becomes its first output. A file appears whole or not at all, so a
job that ended early goes on where it was, and a worker that dies has its inputs run again by another.
"""
import argparse
import os
from pathlib import Path

import numpy as np
import ray

import fusec


class Worker:
    def __init__(self, model, outputs, **options):
        self.engine, self.outputs = fusec.load(model, **options), Path(outputs)

    def __call__(self, batch):
        paths = [Path(path) for path in batch["path"]]
        results = self.engine(np.stack([np.load(path) for path in paths]))
        results = results[0] if isinstance(results, tuple) else results
        for path, result in zip(paths, results):
            part = self.outputs / f"{path.name}.{os.getpid()}.part"
            with open(part, "wb") as file:
                np.save(file, result)
            os.replace(part, self.outputs / path.name)
        return {"path": batch["path"], "worker": np.full(len(paths), os.getpid())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--gpu", action="store_true", help="a GPU for each worker")
    arguments = parser.parse_args()
    arguments.outputs.mkdir(parents=True, exist_ok=True)
    names = sorted(p.name for p in arguments.inputs.glob("*.npy") if not (arguments.outputs / p.name).exists())
    print(f"{len(names)} inputs to run", flush=True)
    if names:
        # Ray gives each worker the cores and the GPU that it asks for, and shows a worker no other GPU.
        needs = {"num_gpus": 1} if arguments.gpu else {"num_cpus": arguments.threads}
        options = {"device": "cuda" if arguments.gpu else "cpu", "threads": arguments.threads}
        # In blocks from the start: a task that splits them would wait for a core, and the workers may hold all.
        rows = ray.data.from_items([{"path": str((arguments.inputs / name).resolve())} for name in names],
                                   override_num_blocks=max(len(names) // arguments.batch, 1))
        made = rows.map_batches(Worker, fn_constructor_args=(str(arguments.model.resolve()), str(arguments.outputs.resolve())),
                                fn_constructor_kwargs=options, batch_size=arguments.batch,
                                compute=ray.data.ActorPoolStrategy(size=arguments.workers), **needs).take_all()
        print(f"{len(made)} results by {len({row['worker'] for row in made})} workers", flush=True)


if __name__ == "__main__":
    main()
