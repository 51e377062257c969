"""Mistakes in calls for GPUs, which are told by the names that Python has."""

import re

import numpy as np
import pytest
from fake_cuda_library import fake_gpus
from gpu_of_rank import Gpu

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, MismatchError, TensorSpec
from tnt_comm.testing import Preloaded, run_ranks

PLAN = FusionPlan([TensorSpec("kernel", "float32", 4), TensorSpec("nothing", "float32", 0)], 0)


def sum_after_null_addresses() -> None:
    gpu = Gpu(0)
    reducer = GradientReducer(PLAN, name="g", gpu=np.int32(0))
    values = np.arange(4, dtype=np.float32)
    place = gpu.array(values)
    of_kernel = "of tensor 'kernel' must be an address on the GPU, and not null"
    with pytest.raises(ValueError, match=f"'g': `data` {of_kernel}"):
        reducer.start_on_gpu(0, 0, stream=gpu.stream)
    reducer.start_on_gpu(np.int64(0), np.uint64(place), stream=np.int64(gpu.stream))
    reducer.start_on_gpu(1, 0, stream=gpu.stream)
    with pytest.raises(ValueError, match=f"'g': `out` {of_kernel}"):
        reducer.finish_on_gpu(0, 0, stream=gpu.stream)
    reducer.finish_on_gpu(0, place, stream=gpu.stream)
    reducer.finish_on_gpu(1, 0, stream=gpu.stream)
    np.testing.assert_array_equal(gpu.read(place, values), 2 * values)


def test_a_null_address_is_refused_unless_there_is_nothing_at_it(forks: Preloaded) -> None:
    run_ranks(sum_after_null_addresses, 2, env=fake_gpus(), preloaded=forks)


def give_a_gpu_on_one_rank_only(one: int) -> str:
    gpu = 0 if tnt_comm.get_rank() == one else None
    with pytest.raises(MismatchError) as caught:
        GradientReducer(PLAN, gpu=gpu)
    return str(caught.value)


@pytest.mark.parametrize("one", [0, 1])
def test_a_gpu_on_one_rank_only_is_told_by_all(one: int, forks: Preloaded) -> None:
    texts = run_ranks(give_a_gpu_on_one_rank_only, 3, one, env=fake_gpus(), preloaded=forks)
    for text in texts:
        assert re.search(
            rf"rank {one} creates GradientReducer 'gradients' with tensors on GPUs \(`gpu` must be "
            r"given on all ranks or on none\)",
            text,
        )
        assert "creates GradientReducer 'gradients' with tensors in the memory of hosts" in text
