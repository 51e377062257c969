"""Threads and GPU of a rank that SLURM, an MPI or torchrun has started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tnt_comm.start.place import Place
from tnt_keras.process.direct_start import set_up_process_alone, set_up_rank
from tnt_keras.process.host_cores import cores_of_job, cores_of_process

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
    assert set_up_rank(place, environment, devices) == []
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


def threads_of(environment: dict[str, str]) -> tuple[int, int]:
    """Threads of an operation, and operations at a time."""
    assert environment["TNT_NUM_THREADS"] == environment["TF_NUM_INTRAOP_THREADS"]
    assert environment["OMP_NUM_THREADS"] == environment["TF_NUM_INTRAOP_THREADS"]
    return int(environment["TF_NUM_INTRAOP_THREADS"]), int(environment["TF_NUM_INTEROP_THREADS"])


@pytest.mark.parametrize(
    ("lanes", "size", "expected"),
    [
        (4, 4, (4, 2)),  # of sixteen cores a quarter for each lane; a rank is bound to four
        (8, 4, (2, 2)),
        (16, 2, (1, 4)),
        (64, 8, (1, 2)),
    ],
)
def test_threads_of_lanes_are_those_of_the_host_whatever_a_rank_is_bound_to(
    lanes: int, size: int, expected: tuple[int, int], devices: Path
) -> None:
    environment = {"TNT_LANES": str(lanes)}
    place = Place("open mpi", 0, size=size, local_rank=0, local_size=size)
    assert set_up_rank(place, environment, devices) == []
    assert threads_of(environment) == expected


def test_a_process_alone_has_the_threads_of_lanes_of_several_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    environment = {"TNT_LANES": "4"}
    set_up_process_alone(environment)
    assert threads_of(environment) == (4, 4)


def test_a_process_alone_without_lanes_keeps_the_threads_of_tensorflow() -> None:
    environment = {"TNT_NUM_THREADS": "3"}
    set_up_process_alone(environment)
    assert environment == {"TNT_NUM_THREADS": "3"}


@pytest.mark.parametrize(
    ("own", "threads"),
    [
        ({"TNT_NUM_THREADS": "2"}, ("2", "2")),
        ({"TF_NUM_INTRAOP_THREADS": "3"}, ("3", "3")),
        ({"TF_NUM_INTRAOP_THREADS": "0"}, ("0", None)),  # of TensorFlow's choice
    ],
)
def test_threads_of_lanes_that_the_user_states_are_kept(
    own: dict[str, str], threads: tuple[str, str | None], devices: Path
) -> None:
    environment = {"TNT_LANES": "4", **own}
    set_up_rank(SECOND_OF_TWO, environment, devices)
    names = ("TF_NUM_INTRAOP_THREADS", "TNT_NUM_THREADS")
    assert tuple(environment.get(name) for name in names) == threads


def test_it_is_told_that_other_hosts_may_have_other_threads_for_lanes(devices: Path) -> None:
    (said,) = set_up_rank(SECOND_OF_TWO, {"TNT_LANES": "4"}, devices)
    assert "set TNT_NUM_THREADS=4 for all ranks" in said
    stated = {"TNT_LANES": "4", "TNT_NUM_THREADS": "4"}
    assert set_up_rank(SECOND_OF_TWO, stated, devices) == []


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b", {"a/cpu.max": "max 100000", "a/b/cpu.max": "250000 100000"}, 2),
        ("0::/a/b", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 4),
        (
            "4:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"},
            3,
        ),
        ("", {}, 4),
    ],
)
def test_a_quota_of_cpu_time_is_a_number_of_cores(
    own: str, files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    groups = tmp_path / "groups", tmp_path / "own"
    assert cores_of_process(*groups) == expected
    assert cores_of_job({"SLURM_CPUS_ON_NODE": "4"}, *groups) == expected


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
    assert set_up_rank(SECOND_OF_TWO, environment, devices) == []
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
    assert len(said) == warns
    if said:
        assert said[0].startswith("Only 1 GPU for 2 ranks of this host: all ranks run on CPUs.")


def test_fewer_gpus_than_ranks_are_used_by_none(devices: Path) -> None:
    environment = {GPUS: "0,1"}
    place = Place("open mpi", rank=0, size=3, local_rank=0, local_size=3)
    said = set_up_rank(place, environment, devices)
    assert environment[GPUS] == "-1"
    assert "Only 2 GPUs for 3 ranks" in said[0]


def test_gpus_that_the_user_does_not_want_are_hidden(devices: Path) -> None:
    environment = {GPUS: "0,1", "TNT_GPUS_PER_NODE": "0"}
    assert set_up_rank(SECOND_OF_TWO, environment, devices) == []
    assert environment[GPUS] == environment["HIP_VISIBLE_DEVICES"] == "-1"
