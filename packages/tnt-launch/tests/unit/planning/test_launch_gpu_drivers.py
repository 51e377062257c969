"""GPUs are described by what their drivers and the kernel say, in trees of made-up hosts."""

import stat

import pytest
from made_up_host import MadeUpHost

from tnt_launch.planning.gpu_drivers import (
    Gpu,
    amd_gpus,
    driver_version,
    node_of_device,
    nvidia_gpus,
)

A100 = "NVIDIA A100-SXM4-40GB"


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A host without CPUs, GPUs and nvidia-smi."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return MadeUpHost(tmp_path)


def put_nvidia_smi(host, text):
    program = host.root / "bin" / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def listing(*lines):
    return "\n".join(f"echo '{line}'" for line in lines)


def gpus_of(installed):
    return [one.gpu for one in installed]


def test_gpus_of_the_driver_folder_are_numbered_by_address(made_up):
    made_up.add_nvidia_gpu("0000:af:00.0", 1, "GPU-b1")
    made_up.add_nvidia_gpu("0000:3b:00.0", 0, "GPU-a0")
    assert gpus_of(nvidia_gpus(made_up.root)) == [
        Gpu("0", "GPU-a0", A100, "0000:3b:00.0", 0),
        Gpu("1", "GPU-b1", A100, "0000:af:00.0", 1),
    ]


def test_in_a_container_gpus_are_those_of_the_tool_with_the_addresses_of_the_folder(made_up):
    for number, pci in enumerate(("0000:07:00.0", "0000:0b:00.0", "0000:48:00.0")):
        made_up.add_nvidia_gpu(pci, number, f"GPU-{number}")
    put_nvidia_smi(made_up, listing(f"GPU 0: {A100} (UUID: GPU-2)", f"GPU 1: {A100} (UUID: GPU-1)"))
    assert gpus_of(nvidia_gpus(made_up.root)) == [
        Gpu("0", "GPU-2", A100, "0000:48:00.0", 2),
        Gpu("1", "GPU-1", A100, "0000:0b:00.0", 1),
    ]


def test_a_gpu_whose_uuid_the_folder_does_not_tell_yet_is_known_by_its_order(made_up):
    unknown = "GPU-????????-????-????-????-????????????"
    made_up.add_nvidia_gpu("0000:3b:00.0", 0, unknown)
    made_up.add_nvidia_gpu("0000:af:00.0", 1, unknown)
    put_nvidia_smi(made_up, listing(f"GPU 0: {A100} (UUID: GPU-a)", f"GPU 1: {A100} (UUID: GPU-b)"))
    assert [gpu.node for gpu in gpus_of(nvidia_gpus(made_up.root))] == [0, 1]
    (made_up.root / "bin" / "nvidia-smi").unlink()
    assert [gpu.uuid for gpu in gpus_of(nvidia_gpus(made_up.root))] == ["", ""]


def test_without_the_folder_of_the_driver_gpus_have_no_place(made_up):
    put_nvidia_smi(made_up, listing("GPU 0: A (UUID: GPU-1)", "GPU 1: A", "Unable to determine"))
    assert gpus_of(nvidia_gpus(made_up.root)) == [Gpu("0", "GPU-1", "A"), Gpu("1", "", "A")]


def test_parts_have_the_place_of_their_gpu(made_up):
    made_up.add_nvidia_gpu("0000:3b:00.0", 0, "GPU-a")
    made_up.add_nvidia_gpu("0000:af:00.0", 1, "GPU-b")
    put_nvidia_smi(
        made_up,
        listing(
            f"GPU 0: {A100} (UUID: GPU-a)",
            f"GPU 1: {A100} (UUID: GPU-b)",
            "  MIG 3g.20gb     Device  0: (UUID: MIG-1c)",
            "  MIG 1g.5gb      Device  1: (UUID: MIG-2d)",
        ),
    )
    whole, divided = nvidia_gpus(made_up.root)
    assert whole.parts == ()
    assert divided.parts == (
        Gpu("MIG-1c", "MIG-1c", f"{A100} MIG 3g.20gb", "0000:af:00.0", 1),
        Gpu("MIG-2d", "MIG-2d", f"{A100} MIG 1g.5gb", "0000:af:00.0", 1),
    )


def test_a_tool_that_fails_leaves_the_folder_of_the_driver(made_up):
    put_nvidia_smi(made_up, "exit 9")
    made_up.add_nvidia_gpu("0000:01:00.0", 0, "GPU-a")
    assert len(nvidia_gpus(made_up.root)) == 1


def test_no_driver_means_no_gpu(made_up):
    assert nvidia_gpus(made_up.root) == amd_gpus(made_up.root) == ()
    assert driver_version(made_up.root) == ""


def test_gpus_of_amd_are_the_nodes_with_simd_units_that_can_be_read(made_up):
    made_up.add_kfd_node(0, cpu_cores_count=64, simd_count=0, mem_banks_count=1)
    made_up.add_kfd_node(10, simd_count=304, location_id=0xC100, domain=1, unique_id=0x1A2B)
    made_up.add_kfd_node(2, simd_count=304, location_id=0x2F08)
    made_up.add_kfd_node(3)  # as in a container to which the GPU was not given
    made_up.put("sys/class/kfd/kfd/topology/nodes/10/name", "aldebaran\n")
    made_up.add_device("0001:c1:00.0", 3)
    assert gpus_of(amd_gpus(made_up.root)) == [
        Gpu("0", "", "", "0000:2f:01.0", -1),
        Gpu("1", "GPU-0000000000001a2b", "aldebaran", "0001:c1:00.0", 3),
    ]


@pytest.mark.parametrize(
    ("node", "near", "expected"),
    [
        ("1", "0-3", 1),  # what firmware says of the device itself is first
        ("-1", "4-7", 1),
        ("-1", "0-7", -1),
        ("-1", "", -1),
        ("", "", -1),
    ],
)
def test_a_device_is_near_its_node_or_that_of_the_cpus_near_it(made_up, node, near, expected):
    made_up.add_nodes("0-3", "4-7")
    made_up.add_device("0000:3b:00.0", node, near)
    assert node_of_device("0000:3B:00.0", made_up.root) == expected
    assert node_of_device("0000:3c:00.0", made_up.root) == -1


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC\n"
            "GCC version:  gcc version 12.2.0\n",
            "NVIDIA 535.104.05",
        ),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
            "NVIDIA 580.65.06",
        ),
        ("proc/driver/nvidia/version", "something new\n", "NVIDIA, something new"),
        ("sys/module/amdgpu/version", "6.7.0\n", "amdgpu 6.7.0"),
    ],
)
def test_the_version_of_the_driver_is_that_of_the_kernel_module(made_up, path, text, expected):
    made_up.put(path, text)
    assert driver_version(made_up.root) == expected
