"""A training job over an engine for clusters, as a user starts it; without one, the remedy."""

import os
import re

import pytest
from gpi2_found import needs_gpi2
from run_command import run_command
from ucx_found import needs_ucx

JOB = "tarantella -n 2 --no-gpu -x TNT_TRANSPORT={engine} {options} -- {script}"
TRAINING = JOB.replace("{script}", "models/lenet5/train.py --epochs 1")


def library_of(engine):
    """The option that names it: `run_command` hands on no variables of a job."""
    name = f"TNT_{engine.upper()}_LIBRARY"
    return f"{name}={os.environ[name]}" if name in os.environ else ""


def last_losses(output):
    return re.findall(r"^test (?:loss|accuracy): ([\d.]+)$", output, re.MULTILINE)


@pytest.mark.parametrize(
    ("engine", "library", "remedy"),
    [
        ("gpi2", "libGPI2.so", "Build and install it as its README says"),
        ("ucx", "libucp.so.0", 'pip install "tnt-comm[ucx]"'),
    ],
)
def test_without_a_library_the_job_ends_with_the_remedy(engine, library, remedy):
    name = f"TNT_{engine.upper()}_LIBRARY"
    script = "tests/end_to_end/scripts/join.py"
    options = f"{name}=/nowhere/{library}"
    finished = run_command(JOB.format(engine=engine, options=options, script=script))
    assert finished.status == 1
    assert f"{name}='/nowhere/{library}' cannot be loaded" in finished.messages
    assert remedy in finished.messages


@pytest.mark.thorough  # one of more hosts is in test_training_on_ssh_hosts
@pytest.mark.parametrize(
    "engine",
    [pytest.param("gpi2", marks=needs_gpi2), pytest.param("ucx", marks=needs_ucx)],
)
def test_training_gives_the_results_of_shared_memory(engine):
    over_network = run_command(TRAINING.format(engine=engine, options=library_of(engine)))
    assert over_network.status == 0, over_network.messages
    over_memory = run_command(TRAINING.format(engine="shm", options=""))
    assert over_memory.status == 0, over_memory.messages
    assert len(last_losses(over_network.output)) == 2
    assert last_losses(over_network.output) == last_losses(over_memory.output)
