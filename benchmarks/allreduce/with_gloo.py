"""Gloo, through torch.distributed on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.allreduce.variant import Call, Library, Variant, bucketed, private_arrays

BUCKET_BYTES = 25 * 1024**2  # as DistributedDataParallel has it


def open_library() -> Library:
    """Join the process group of the environment. Collective."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // int(os.environ["WORLD_SIZE"])))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", os.environ["INIT_METHOD"], rank=rank, world_size=size)
    return Library(
        rank=dist.get_rank(),
        size=dist.get_world_size(),
        versions={"torch": torch.__version__},
        barrier=dist.barrier,
        variants={
            "in place": in_place,
            "25 MiB buckets": lambda numbers: bucketed(numbers, BUCKET_BYTES, sum_in_place),
        },
    )


def sum_in_place(array: np.ndarray) -> Call:
    return partial(dist.all_reduce, torch.from_numpy(array))


def in_place(num_elements: Sequence[int]) -> Variant:
    """All arrays in flight at once, each in place."""
    arrays = private_arrays(num_elements)
    if len(arrays) == 1:
        return Variant(arrays, sum_in_place(arrays[0]), lambda: arrays)
    tensors = [torch.from_numpy(array) for array in arrays]

    def run() -> None:
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    return Variant(arrays, run, lambda: arrays)
