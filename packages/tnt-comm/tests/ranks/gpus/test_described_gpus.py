"""What a process says of its GPUs: those that the driver has, and what would sum their tensors."""

import pytest
from fake_cuda_library import fake_gpus
from rank_pools import ENVIRONMENT

import tnt_comm
from tnt_comm.testing import run_ranks


def describe():
    return tnt_comm.describe_devices()


def describe_with(variables):
    (described,) = run_ranks(describe, 1, env={**ENVIRONMENT, **variables})
    return described


def test_all_gpus_are_described():
    described = describe_with(fake_gpus(2, version=12080))
    assert described["is_available"] is True
    assert described["reason"] == ""
    assert described["driver_version"] == 12080
    assert described["devices"][1] == {
        "name": "Stand-in GPU",
        "pci": "0000:02:00.0",
        "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e01",
        "total_bytes": 2**32,
    }
    assert described["can_access_peer"] == [[True, True], [True, True]]


@pytest.mark.parametrize(
    ("peers", "asked", "engine", "why"),
    [
        ("11,11", "auto", "ipc", "All GPUs reach each other's memory."),
        ("11,11", "host", "host", "TNT_GPU_SUMS is host."),
        (
            "10,11",
            "auto",
            "host",
            "GPU 0 (0000:01:00.0) does not reach the memory of GPU 1 (0000:02:00.0).",
        ),
    ],
)
def test_it_is_said_what_would_sum_and_why(peers, asked, engine, why):
    described = describe_with({**fake_gpus(2, peers=peers), "TNT_GPU_SUMS": asked})
    assert (described["engine"], described["why"]) == (engine, why)


def test_without_a_driver_the_reason_is_said():
    described = describe_with({"TNT_CUDA_LIBRARY": "/nowhere/libcuda.so.1"})
    assert described["is_available"] is False
    assert described["reason"] == (
        "TNT_CUDA_LIBRARY='/nowhere/libcuda.so.1' cannot be loaded (/nowhere/libcuda.so.1: cannot "
        "open shared object file: No such file or directory)."
    )
    assert described["why"] == described["reason"]
    assert described["engine"] == "none"
    assert described["devices"] == described["can_access_peer"] == []


def test_a_driver_that_does_not_answer_is_the_reason():
    described = describe_with(fake_gpus(1, fail="cuDeviceGetUuid_v2:1:1"))
    assert described["is_available"] is False
    assert described["reason"] == (
        "CUDA's cuDeviceGetUuid_v2 has failed with CUDA_ERROR_INVALID_VALUE (invalid argument)."
    )
