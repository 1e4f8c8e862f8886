# SPDX-License-Identifier: Apache-2.0
"""Classifies images by several processes that torchrun starts: each has an engine and every n-th part of the images, and the results are
gathered on the first.

usage: torchrun --standalone --nproc-per-node 2 samples/torchrun/batch.py MODEL.fsc IMAGES.npy OUT.npy [--batch 64] [--threads 1]

With a GPU for each process the engines run there ("cuda:" and LOCAL_RANK), else on the CPU. What the processes exchange are results on the
host, so the group is of gloo in both cases.
"""
import argparse
import os

import numpy as np
import torch.distributed as group

import fusec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("images")
    parser.add_argument("out")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of each process on a CPU")
    arguments = parser.parse_args()
    local, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    has_gpus = sum(device["device"].startswith("cuda") for device in fusec.devices()) >= local_size
    engine = fusec.load(arguments.model, device=f"cuda:{local}" if has_gpus else "cpu", threads=arguments.threads)
    group.init_process_group("gloo")
    rank, size = group.get_rank(), group.get_world_size()

    images = np.load(arguments.images, mmap_mode="r")
    own = np.arange(rank, len(images), size)  # the number of each image in the whole
    parts = [engine(np.ascontiguousarray(images[own[at:at + arguments.batch]])) for at in range(0, len(own), arguments.batch)]
    gathered = [None] * size if rank == 0 else None
    group.gather_object((own, parts), gathered)
    if rank == 0:
        order = np.concatenate([numbers for numbers, _ in gathered])
        results = np.concatenate([part for _, parts in gathered for part in parts])
        np.save(arguments.out, results[np.argsort(order)])
        print(f"{len(results)} images by {size} processes on {engine.device}")
    group.destroy_process_group()


if __name__ == "__main__":
    main()
