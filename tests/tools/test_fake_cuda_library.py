"""The stand-in for CUDA's driver: it is compiled once, and a process finds its GPUs."""

import ctypes

import pytest
from fake_cuda_library import fake_cuda_library, fake_gpus
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks


def test_it_is_a_driver_and_not_compiled_twice():
    library = fake_cuda_library()
    written = library.stat().st_mtime_ns
    fake_cuda_library.cache_clear()
    assert fake_cuda_library() == library
    assert library.stat().st_mtime_ns == written
    driver = ctypes.CDLL(str(library))
    assert driver.cuInit(0) == 0
    version = ctypes.c_int()
    assert driver.cuDriverGetVersion(ctypes.byref(version)) == 0
    assert version.value > 12000


def test_its_settings_are_variables():
    variables = fake_gpus(2, delay_us=50)
    assert variables["FAKE_CUDA_DEVICES"] == "2"
    assert variables["FAKE_CUDA_DELAY_US"] == "50"
    assert variables["TNT_CUDA_LIBRARY"] == str(fake_cuda_library())


def obstacles():
    import tnt_comm

    return [tnt_comm.gpu_obstacle(gpu) for gpu in (0, 1, 2)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_rank_finds_as_many_gpus_as_it_is_given(number):
    env = {**ENVIRONMENT, **fake_gpus(number)}
    (found,) = run_ranks(obstacles, 1, env=env)
    assert found[:number] == [""] * number
    assert all(found[number:])
