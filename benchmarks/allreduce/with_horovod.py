"""Horovod, through PyTorch on the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version

import horovod.torch as hvd
import torch

from benchmarks.allreduce.variant import Library, Variant, private_arrays


def open_library() -> Library:
    """Join the job of the launcher. Collective."""
    hvd.init()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // hvd.size()))
    return Library(
        rank=hvd.rank(),
        size=hvd.size(),
        versions={"horovod": version("horovod"), "torch": torch.__version__},
        barrier=hvd.barrier,
        variants={"in place": in_place},
    )


def in_place(num_elements: Sequence[int]) -> Variant:
    """All arrays in flight at once, last layer first, as its optimizer does; Horovod fuses them."""
    arrays = private_arrays(num_elements)
    tensors = [torch.from_numpy(array) for array in arrays]
    named = [(f"gradient {index}", tensor) for index, tensor in enumerate(tensors)]
    named.reverse()

    def run() -> None:
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=name) for name, tensor in named]
        for handle in handles:
            hvd.synchronize(handle)

    return Variant(arrays, run, lambda: arrays)
