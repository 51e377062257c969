"""GPUs are counted and named as a process started here would see them."""

import os
import stat

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning import devices as gpus


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
    assert len(gpus.visible_gpus(4, environment)) == count
    assert len(gpus.visible_amd_gpus(4, environment)) == count


def test_without_a_gpu_none_is_visible_whatever_is_listed():
    assert gpus.visible_gpus(0, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}) == ()
    assert gpus.visible_amd_gpus(0, {"HIP_VISIBLE_DEVICES": "GPU-1a2b"}) == ()


def test_visible_gpus_are_named_as_the_user_names_them():
    assert gpus.visible_gpus(2, {}) == ("0", "1")
    assert gpus.visible_gpus(4, {"CUDA_VISIBLE_DEVICES": "3, 2"}) == ("3", "2")
    assert gpus.visible_gpus(1, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}) == ("GPU-1a2b",)


@pytest.mark.parametrize(
    ("rocr", "hip", "cuda", "names"),
    [
        (None, None, None, ("0", "1", "2", "3")),
        (None, "3,1", None, ("3", "1")),
        (None, None, "3,1", ("3", "1")),
        (None, "2", "3,1", ("2",)),
        ("2,3", None, None, ("0", "1")),
        ("GPU-1a,GPU-2b,1", "2,0", None, ("2", "0")),
        ("2,3", "1,2", None, ("1",)),
        ("", None, None, ()),
        (None, "", "0", ()),
    ],
)
def test_gpus_of_amd_are_numbered_anew_below_hip(rocr, hip, cuda, names):
    lists = {"ROCR": rocr, "HIP": hip, "CUDA": cuda}
    environment = {f"{k}_VISIBLE_DEVICES": v for k, v in lists.items() if v is not None}
    assert gpus.visible_amd_gpus(4, environment) == names


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ("0", "1")),
        ({"CUDA_VISIBLE_DEVICES": "2,3,4"}, ("2", "3")),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, ("1", "0")),
        ({"ROCR_VISIBLE_DEVICES": "5,6"}, ("0", "1")),
        ({"ROCR_VISIBLE_DEVICES": "5,6", "HIP_VISIBLE_DEVICES": "1,0"}, ("1", "0")),
    ],
)
def test_a_stated_number_of_gpus_is_taken_from_the_users_list(environment, names):
    assert gpus.stated_gpus(2, environment) == names


@pytest.mark.parametrize("runtime", ["CUDA", "HIP", "ROCR"])
def test_more_gpus_stated_than_listed_is_an_error(runtime):
    name = f"{runtime}_VISIBLE_DEVICES"
    with pytest.raises(LaunchError, match=f"TNT_GPUS_PER_NODE=3, but {name}=0,1"):
        gpus.stated_gpus(3, {name: "0,1"})


def put_nvidia_smi(folder, text):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_gpus_are_counted_by_the_tool_of_the_driver(monkeypatch, tmp_path):
    put_nvidia_smi(tmp_path, "echo 'GPU 0: A (UUID: GPU-1)'; echo 'GPU 1: A'; echo '  MIG 1g'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gpus.installed_gpus() == 2


def test_gpus_are_counted_by_the_folder_of_the_driver_if_its_tool_fails(monkeypatch, tmp_path):
    put_nvidia_smi(tmp_path, "exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    assert gpus.installed_gpus(tmp_path / "gpus") == 1


def test_no_driver_means_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.installed_gpus(tmp_path / "nothing") == 0
    assert gpus.installed_amd_gpus(tmp_path / "nothing") == 0


def put_kfd_node(nodes, number, properties):
    folder = nodes / str(number)
    folder.mkdir(parents=True)
    if properties is not None:
        (folder / "properties").write_text(properties)


def test_gpus_of_amd_are_the_nodes_with_simd_units_that_can_be_read(tmp_path):
    put_kfd_node(tmp_path, 0, "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n")
    put_kfd_node(tmp_path, 1, "cpu_cores_count 0\nsimd_count 304\nmax_waves_per_simd 8\n")
    put_kfd_node(tmp_path, 2, "cpu_cores_count 0\nsimd_count 304\n")
    put_kfd_node(tmp_path, 3, None)  # as in a container to which the GPU was not given
    put_kfd_node(tmp_path, 4, "")
    assert gpus.installed_amd_gpus(tmp_path) == 2


def test_gpus_of_amd_are_looked_for_where_there_is_none_of_nvidia(monkeypatch):
    lists = {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2,3"}
    monkeypatch.setattr(gpus, "installed_amd_gpus", lambda: 4)
    for num_nvidia, names in ((2, ("1",)), (0, ("2", "3"))):
        monkeypatch.setattr(gpus, "installed_gpus", lambda count=num_nvidia: count)
        assert gpus.find_gpus(lists) == names
