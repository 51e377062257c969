"""Cores and GPUs are counted as a process started here would see them."""

import os
import stat

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning import hardware
from tnt_launch.planning.settings import Settings


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        (None, 4),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("3,1", 2),
        (" 0 , 2 ", 2),
        ("0,-1,2", 1),
        ("0,4,1", 1),
        ("GPU-1a2b,MIG-3c", 2),
        ("none", 0),
    ],
)
def test_visible_gpus_are_those_before_the_first_wrong_entry(listed, count):
    environment = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    assert len(hardware.visible_gpus(4, environment)) == count


def test_without_a_gpu_none_is_visible_whatever_is_listed():
    assert hardware.visible_gpus(0, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}) == ()


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", None), ("200000 100000", 2.0), ("150000 100000", 1.5), ("-1 100000", None)],
)
def test_a_quota_is_time_per_period(text, cores):
    assert hardware.parse_cpu_max(text) == cores


def test_an_unreadable_quota_is_no_limit():
    assert hardware.parse_cpu_max("") is None
    assert hardware.parse_cpu_max(" ") is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (2.0, 2), (3.9, 3), (0.5, 1), (64.0, 8)])
def test_cores_are_those_of_the_affinity_or_the_quota_if_lower(monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(hardware, "_cgroup_quota", lambda: quota)
    assert hardware.usable_cores() == cores


def put_nvidia_smi(folder, text):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_gpus_are_counted_by_the_tool_of_the_driver(monkeypatch, tmp_path):
    put_nvidia_smi(tmp_path, "echo 'GPU 0: A (UUID: GPU-1)'; echo 'GPU 1: A'; echo '  MIG 1g'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert hardware.installed_gpus() == 2


def test_gpus_are_counted_by_the_folder_of_the_driver_if_its_tool_fails(monkeypatch, tmp_path):
    put_nvidia_smi(tmp_path, "exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    monkeypatch.setattr(hardware, "NVIDIA_PROC", tmp_path / "gpus")
    assert hardware.installed_gpus() == 1


def test_no_driver_means_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hardware, "NVIDIA_PROC", tmp_path / "nothing")
    assert hardware.installed_gpus() == 0


def test_gpus_are_not_looked_for_if_nobody_asks(monkeypatch):
    monkeypatch.setattr(hardware, "installed_gpus", lambda: pytest.fail("looked"))
    found = hardware.inspect_host(Settings({}, {}), {}, allow_gpus=False)
    assert (found.gpus, found.host) == ((), os.uname().nodename)


def test_visible_gpus_are_named_as_the_user_names_them():
    assert hardware.visible_gpus(2, {}) == ("0", "1")
    assert hardware.visible_gpus(4, {"CUDA_VISIBLE_DEVICES": "3, 2"}) == ("3", "2")
    assert hardware.visible_gpus(1, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}) == ("GPU-1a2b",)


@pytest.mark.parametrize(
    ("environment", "exports", "gpus"),
    [
        ({}, {}, ("0", "1")),
        ({"CUDA_VISIBLE_DEVICES": "2,3,4"}, {}, ("2", "3")),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, {}, ("1", "0")),
        ({"CUDA_VISIBLE_DEVICES": "2"}, {"CUDA_VISIBLE_DEVICES": "5,6"}, ("5", "6")),
    ],
)
def test_a_stated_number_of_gpus_is_taken_from_the_users_list(
    monkeypatch, environment, exports, gpus
):
    monkeypatch.setattr(hardware, "installed_gpus", lambda: pytest.fail("looked"))
    settings = Settings({"TNT_GPUS_PER_NODE": 2}, exports)
    assert hardware.inspect_host(settings, environment, allow_gpus=True).gpus == gpus
    assert hardware.inspect_host(settings, environment, allow_gpus=False).gpus == ()


def test_more_gpus_stated_than_listed_is_an_error():
    with pytest.raises(LaunchError, match=r"TNT_GPUS_PER_NODE=3, but CUDA_VISIBLE_DEVICES=0,1"):
        hardware.stated_gpus(3, {"CUDA_VISIBLE_DEVICES": "0,1"})
