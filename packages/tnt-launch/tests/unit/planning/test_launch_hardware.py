"""A host is described as a process started here would see it."""

import json
import os
from dataclasses import asdict

import pytest

from tnt_launch.planning import host_facts as hardware
from tnt_launch.planning.addresses import OwnAddress
from tnt_launch.planning.cpus import Cpu
from tnt_launch.planning.gpu_drivers import Gpu
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.visible_gpus import FoundGpus


def test_this_host_has_a_name_and_the_cpus_of_the_affinity():
    found = hardware.inspect_host(Settings({}, {}), {}, allow_gpus=False)
    assert found.host == os.uname().nodename
    assert {cpu.number for cpu in found.cpus} == os.sched_getaffinity(0)
    assert 1 <= found.num_cores <= len(found.cpus)


def test_gpus_are_not_looked_for_if_nobody_asks(monkeypatch):
    monkeypatch.setattr(hardware, "find_gpus", lambda seen, stated: pytest.fail("looked"))
    assert hardware.inspect_host(Settings({}, {}), {}, allow_gpus=False).gpus == ()
    stated = Settings({"TNT_GPUS_PER_NODE": 2}, {})
    assert hardware.inspect_host(stated, {}, allow_gpus=False).gpus == ()


def test_a_stated_number_and_lists_of_exports_win_where_gpus_are_looked_for(monkeypatch):
    asked = []

    def find_gpus(seen, stated):
        asked.append((seen["CUDA_VISIBLE_DEVICES"], stated))
        return FoundGpus((Gpu("3"),), "NAME=3", "odd")

    monkeypatch.setattr(hardware, "find_gpus", find_gpus)
    exports = Settings({"TNT_GPUS_PER_NODE": 2}, {"CUDA_VISIBLE_DEVICES": "3"})
    listed = {"CUDA_VISIBLE_DEVICES": "2"}
    found = hardware.inspect_host(exports, listed, allow_gpus=True)
    assert asked == [("3", 2)]
    assert (found.gpus, found.gpu_list, found.gpu_remark) == ((Gpu("3"),), "NAME=3", "odd")


def test_hardware_survives_json():
    cpus = (Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 1))
    own = (OwnAddress("eth0", "10.0.0.1"),)
    described = hardware.HostFacts(
        "a",
        2,
        (Gpu("0", "GPU-1", "A", "0000:3b:00.0", 1), Gpu("GPU-1")),
        cpus,
        has_numactl=True,
        addresses=own,
        interpreter=("python",),
    )
    assert hardware.HostFacts(**json.loads(json.dumps(asdict(described)))) == described
