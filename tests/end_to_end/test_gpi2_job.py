"""A training job over GPI-2, as a user starts it; without a GPI-2 it says how to get one."""

import os
import re

import pytest
from run_command import run_command

JOB = "tarantella -n 2 --no-gpu -x TNT_TRANSPORT=gpi2 {options} -- {script}"
TRAINING = JOB.replace("{script}", "models/lenet5/train.py --epochs 1")
LIBRARY = os.environ.get("TNT_GPI2_LIBRARY")  # `run_command` hands on no variables of a job


def last_losses(output):
    return re.findall(r"^test (?:loss|accuracy): ([\d.]+)$", output, re.MULTILINE)


def test_without_a_library_the_job_ends_with_the_remedy():
    script = "tests/end_to_end/scripts/join.py"
    finished = run_command(
        JOB.format(options="TNT_GPI2_LIBRARY=/nowhere/libGPI2.so", script=script)
    )
    assert finished.status == 1
    assert "TNT_GPI2_LIBRARY='/nowhere/libGPI2.so' cannot be loaded" in finished.messages
    assert "Build and install it as its README says" in finished.messages


@pytest.mark.skipif(not LIBRARY, reason="set TNT_GPI2_LIBRARY to a GPI-2: docs/howto/use_gpi2.md")
def test_training_gives_the_results_of_shared_memory():
    over_gpi2 = run_command(TRAINING.format(options=f"TNT_GPI2_LIBRARY={LIBRARY}"))
    assert over_gpi2.status == 0, over_gpi2.messages
    over_memory = run_command(TRAINING.replace("gpi2", "shm").format(options=""))
    assert over_memory.status == 0, over_memory.messages
    assert len(last_losses(over_gpi2.output)) == 2
    assert last_losses(over_gpi2.output) == last_losses(over_memory.output)
