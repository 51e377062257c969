"""Ranks that compute on GPUs give the results of a serial run there."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gpu_runs
import numpy as np
import pytest
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

DRIVERS = [Path("/proc/driver/nvidia"), Path("/dev/kfd"), Path("/dev/dxg")]
GPU_ENVIRONMENT = {
    **ENVIRONMENT,
    "CUDA_VISIBLE_DEVICES": "0",  # of all ranks, so that one GPU is enough
    "HIP_VISIBLE_DEVICES": "0",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


@functools.cache
def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU; asked in a process that the ranks are not forks of."""
    if shutil.which("nvidia-smi") is None and not any(path.exists() for path in DRIVERS):
        return False
    code = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **GPU_ENVIRONMENT},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return int(found.stdout) > 0


def test_ranks_with_a_gpu_train_as_in_a_serial_run() -> None:
    if not has_gpu():
        pytest.skip("TensorFlow sees no GPU on this host")
    [serial] = run_ranks(gpu_runs.trained, 1, False, env=GPU_ENVIRONMENT)
    of_ranks = run_ranks(gpu_runs.trained, 2, True, env=GPU_ENVIRONMENT)
    for result in of_ranks:
        assert "GPU" in result["device"]
        for own, master in zip(result["weights"], of_ranks[0]["weights"], strict=True):
            np.testing.assert_array_equal(own, master)
        for own, wanted in zip(result["weights"], serial["weights"], strict=True):
            np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result["history"]["loss"], serial["history"]["loss"], rtol=1e-4)
