"""Sums of tensors on GPUs between processes, with ranks that are late, stopped and killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fake_cuda_library import fake_gpus
from gpu_of_rank import Array, Gpu
from tree_reference import FLOATS, tree, values

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, PeerLostError, TensorSpec
from tnt_comm.testing import Preloaded, observe_ranks, run_ranks

COUNTS = [94, 17, 0, 1, 5000, 40009, 33]
LOST = 1  # the rank that something happens to


def _reducer(gpu: int, dtype: str, threshold_bytes: int = 400) -> GradientReducer:
    specs = [TensorSpec(f"t{i}", dtype, count) for i, count in enumerate(COUNTS)]
    return GradientReducer(FusionPlan(specs, threshold_bytes), gpu=gpu)


def _start_all(reducer: GradientReducer, gpu: Gpu, tensors: list[Array]) -> list[int]:
    places = [gpu.array(each) for each in tensors]
    for i, place in enumerate(places):
        reducer.start_on_gpu(i, place, stream=gpu.stream)
        gpu.write(place, np.zeros_like(tensors[i]))  # what is computed there next
    return places


def _finish_all(
    reducer: GradientReducer, gpu: Gpu, tensors: list[Array], places: list[int]
) -> list[Array]:
    for i, place in enumerate(places):
        reducer.finish_on_gpu(i, place, stream=gpu.stream)
    return [gpu.read(place, each) for place, each in zip(places, tensors, strict=True)]


def _tensors(dtype: str, rank: int) -> list[Array]:
    return [values(dtype, count, rank) for count in COUNTS]


def _check_steps(
    reducer: GradientReducer, gpu: Gpu, dtype: str, num_steps: int, pause_s: float = 0.0
) -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    expected = [
        tree([values(dtype, count, other) for other in range(size)], "sum") for count in COUNTS
    ]
    for _ in range(num_steps):
        places = _start_all(reducer, gpu, _tensors(dtype, rank))
        time.sleep(pause_s)
        sums = _finish_all(reducer, gpu, expected, places)
        for found, wanted in zip(sums, expected, strict=True):
            assert found.tobytes() == wanted.tobytes()


def sum_on_gpus(num_gpus: int) -> tuple[str, str]:
    """Checks sums of all types, and returns what formed them."""
    gpu = Gpu(tnt_comm.get_rank() % num_gpus)
    engine = ("", "")
    for dtype in FLOATS:
        reducer = _reducer(gpu.ordinal, dtype)
        assert reducer.is_on_gpu
        engine = reducer.gpu_sums
        _check_steps(reducer, gpu, dtype, 3)
    return engine


ENGINES = ["host", "ipc"]


@pytest.mark.parametrize("num_gpus", [1, 3], ids=["one GPU for all", "a GPU each"])
@pytest.mark.parametrize("sums", ENGINES)
def test_processes_sum_with_the_bits_of_cpus(sums: str, num_gpus: int, forks: Preloaded) -> None:
    env = {"TNT_GPU_SUMS": sums, **fake_gpus(num_gpus, delay_us=100)}
    engines = run_ranks(sum_on_gpus, 3, num_gpus, env=env, preloaded=forks)
    assert {engine for engine, _ in engines} == {sums}


def test_gpus_that_do_not_reach_each_other_are_summed_by_the_host(forks: Preloaded) -> None:
    env = fake_gpus(2, peers="10,01")
    for engine, reason in run_ranks(sum_on_gpus, 2, 2, env=env, preloaded=forks):
        assert engine == "host"
        assert "does not reach GPU" in reason


def sum_on_the_only_gpu_in_sight() -> tuple[str, str]:
    """As where the launcher shows each rank a GPU of its own."""
    os.environ["FAKE_CUDA_FIRST"] = str(tnt_comm.get_rank())
    gpu = Gpu(0)
    reducer = _reducer(0, "float32")
    _check_steps(reducer, gpu, "float32", 2)
    return reducer.gpu_sums


def test_ranks_that_see_a_gpu_each_sum_in_memory_of_those_they_do_not_see(
    forks: Preloaded,
) -> None:
    found = run_ranks(sum_on_the_only_gpu_in_sight, 3, env=fake_gpus(1), preloaded=forks)
    assert found == [("ipc", "all GPUs of a host reach each other")] * 3


def count_memory_of_reducers_in_turn() -> list[int]:
    """Returns how many pieces of memory of GPUs this process has while it has each reducer."""
    counts = []
    for _ in range(3):
        reducer = _reducer(0, "float32")
        open_files = [
            os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()
        ]
        counts.append(sum("fake-cuda-" in file for file in open_files))
        tnt_comm.barrier()
        reducer.close()
        tnt_comm.barrier()
    return counts


@pytest.mark.parametrize("sums", ENGINES)
def test_a_reducer_gets_memory_when_that_of_an_earlier_one_is_free(
    sums: str, forks: Preloaded
) -> None:
    env = {"TNT_GPU_SUMS": sums, **fake_gpus()}
    for counts in run_ranks(count_memory_of_reducers_in_turn, 2, env=env, preloaded=forks):
        assert counts[0] > 0
        assert counts == [counts[0]] * 3


def come_late_and_be_stopped() -> None:
    gpu = Gpu(0)
    is_late = tnt_comm.get_rank() == LOST
    if is_late:
        time.sleep(0.5)
    reducer = _reducer(0, "float32")
    _check_steps(reducer, gpu, "float32", 3, pause_s=0.3 if is_late else 0.0)
    if is_late:
        waker = f"import os, time, signal; time.sleep(2); os.kill({os.getpid()}, signal.SIGCONT)"
        process = subprocess.Popen([sys.executable, "-c", waker])
        os.kill(os.getpid(), signal.SIGSTOP)
        process.wait()
    _check_steps(reducer, gpu, "float32", 3)


@pytest.mark.parametrize("sums", ENGINES)
def test_late_and_stopped_ranks_are_waited_for(sums: str, forks: Preloaded) -> None:
    env = {"TNT_GPU_SUMS": sums, **fake_gpus()}
    run_ranks(come_late_and_be_stopped, 3, env=env, preloaded=forks)


def lose_a_rank(is_started: bool) -> tuple[str, float]:
    """Returns the error of the sum in which a rank is killed, and the seconds until then."""
    gpu = Gpu(0)
    reducer = _reducer(0, "float32")
    _check_steps(reducer, gpu, "float32", 1)
    tnt_comm.barrier()
    tensors = _tensors("float32", tnt_comm.get_rank())
    if tnt_comm.get_rank() != LOST or is_started:
        places = _start_all(reducer, gpu, tensors)
    if tnt_comm.get_rank() == LOST:
        time.sleep(0.1)  # its GPU is at work, or the others wait
        os.kill(os.getpid(), signal.SIGKILL)

    def go_on_for_ever(places: list[int]) -> None:
        while True:  # what the lost rank has given may still be summed
            _finish_all(reducer, gpu, tensors, places)
            places = _start_all(reducer, gpu, tensors)

    begin = time.monotonic()
    with pytest.raises(PeerLostError) as caught:
        go_on_for_ever(places)
    return str(caught.value), time.monotonic() - begin


@pytest.mark.parametrize("is_started", [False, True], ids=["before its part", "in the sum"])
@pytest.mark.parametrize("sums", ENGINES)
def test_a_killed_rank_ends_the_sums_of_the_others(
    sums: str, is_started: bool, forks: Preloaded
) -> None:
    env = {"TNT_GPU_SUMS": sums, "TNT_TIMEOUT_S": "40", **fake_gpus(delay_us=30_000)}
    reports = observe_ranks(lose_a_rank, 3, is_started, env=env, timeout_s=120, preloaded=forks)
    assert reports[LOST].exit_code == -signal.SIGKILL
    for report in reports:
        if report.rank == LOST:
            continue
        assert report.outcome == "returned", report.full_text()
        text, waited_s = report.value
        assert f"rank {LOST} (host " in text
        assert waited_s < 20  # the job's timeout is 40 s
