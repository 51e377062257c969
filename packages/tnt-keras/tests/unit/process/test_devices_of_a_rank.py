"""Threads and GPU of a rank that SLURM, an MPI or torchrun has started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tnt_comm.start.place import Place
from tnt_keras.process.direct_start import set_up_rank

SECOND_OF_TWO = Place("slurm", rank=1, size=4, local_rank=1, local_size=2, num_nodes=2)
GPUS = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host have sixteen CPUs, and this process four of them."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """The devices of a host without GPUs."""
    (tmp_path / "nvidiactl").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("local_size", "cpus_of_job", "threads"),
    [
        (2, None, "4"),  # the rank is bound to four of sixteen
        (8, None, "2"),  # two ranks are bound to the same four
        (2, "4", "2"),  # the job has four here, for both ranks
        (2, "8", "4"),
        (8, "4", "1"),
    ],
)
def test_threads_have_a_cpu_each(
    local_size: int, cpus_of_job: str | None, threads: str, devices: Path
) -> None:
    environment = {} if cpus_of_job is None else {"SLURM_CPUS_ON_NODE": cpus_of_job}
    place = Place("slurm", rank=0, size=8, local_rank=0, local_size=local_size)
    assert set_up_rank(place, environment, devices) is None
    assert environment["TF_NUM_INTRAOP_THREADS"] == environment["OMP_NUM_THREADS"] == threads
    assert environment["TF_NUM_INTEROP_THREADS"] == str(max(2, int(threads)))


def test_one_rank_of_a_host_keeps_the_threads_of_tensorflow(devices: Path) -> None:
    environment: dict[str, str] = {}
    set_up_rank(Place("slurm", 0, 2, local_rank=0, local_size=1), environment, devices)
    assert "TF_NUM_INTRAOP_THREADS" not in environment


def test_the_number_of_threads_that_the_user_states_counts(devices: Path) -> None:
    environment = {"TNT_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}
    set_up_rank(SECOND_OF_TWO, environment, devices)
    assert environment["TF_NUM_INTRAOP_THREADS"] == "3"
    assert environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("3", "3"),  # that of this task
        ("2,5", "5"),
        ("GPU-a, GPU-b, GPU-c", "GPU-b"),
        ("-1", "-1"),
        ("", ""),
    ],
)
def test_a_rank_sees_its_own_gpu_of_a_list(listed: str, expected: str, devices: Path) -> None:
    environment = {GPUS: listed}
    assert set_up_rank(SECOND_OF_TWO, environment, devices) is None
    assert environment[GPUS] == expected


@pytest.mark.parametrize(
    ("count", "expected", "warns"),
    [(0, None, False), (1, "-1", True), (2, "1", False), (4, "1", False)],
)
def test_without_a_list_a_rank_takes_one_of_those_of_the_host(
    count: int, expected: str | None, warns: bool, devices: Path
) -> None:
    for number in range(count):
        (devices / f"nvidia{number}").touch()
    environment: dict[str, str] = {}
    said = set_up_rank(SECOND_OF_TWO, environment, devices)
    assert environment.get(GPUS) == expected
    assert (said is not None) == warns
    if said is not None:
        assert said.startswith("Only 1 GPU for 2 ranks of this host: all ranks run on CPUs.")


def test_fewer_gpus_than_ranks_are_used_by_none(devices: Path) -> None:
    environment = {GPUS: "0,1"}
    place = Place("open mpi", rank=0, size=3, local_rank=0, local_size=3)
    said = set_up_rank(place, environment, devices)
    assert environment[GPUS] == "-1"
    assert said is not None
    assert "Only 2 GPUs for 3 ranks" in said


def test_gpus_that_the_user_does_not_want_are_hidden(devices: Path) -> None:
    environment = {GPUS: "0,1", "TNT_GPUS_PER_NODE": "0"}
    assert set_up_rank(SECOND_OF_TWO, environment, devices) is None
    assert environment[GPUS] == environment["HIP_VISIBLE_DEVICES"] == "-1"
