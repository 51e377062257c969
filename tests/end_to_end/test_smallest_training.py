"""The least that must work with every supported version: two ranks train as one process does."""

import json

import numpy as np
import pytest
from run_command import run_command

SCRIPT = "tests/end_to_end/scripts/train_tiny.py"


@pytest.mark.thorough  # with one version LeNet-5 does so in test_main_job
def test_training_on_two_ranks_gives_the_results_of_plain_keras():
    finished = run_command(f"tarantella -n 2 --no-gpu -- {SCRIPT}")
    assert finished.status == 0, f"{finished.output}\n{finished.messages}"
    serial, parallel = map(json.loads, finished.output.strip().splitlines()[-2:])
    for name in ("evaluate", "predict"):
        np.testing.assert_allclose(parallel[name], serial[name], rtol=1e-4, atol=1e-5)
    for mine, wanted in zip(parallel["weights"], serial["weights"], strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5)
    assert parallel["history"].keys() == serial["history"].keys()
    for name, values in serial["history"].items():
        np.testing.assert_allclose(parallel["history"][name], values, rtol=1e-4)
