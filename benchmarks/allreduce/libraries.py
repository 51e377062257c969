"""Which libraries are measured, and how the ranks of each are started."""

# Two MPIs cannot live in one environment, so each peer has one of its own, `FOLDER/<peer>`, made by
# `install_peers.py`. Everything is started as a user of the library would. Nobody is bound to a
# core, since nobody knows what else runs on this machine.

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.jobs import ROOT, outer_environment
from benchmarks.launching import OPENMPI, tnt_variables, torch_variables

PROGRAM = ROOT / "benchmarks/allreduce/rank.py"

# glibc returns freed memory of more than these sizes to the kernel at once, and MPI allocates large
# messages anew in every call: the page faults cost more than the communication.
KEEP_MEMORY = {"MALLOC_TOP_PAD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**32)}
OURS = "tnt"
OVER_GPI2 = "tnt, GPI-2"  # ours once more, where the hosts have UCX too
OUR_OUT_OF_PLACE = "out of place"  # into an array of the caller
LIMIT = "limit: "  # begins the names of variants that are no allreduce

Variables = Callable[[int, int, Path], dict[str, str]]


@dataclass(frozen=True)
class LibrarySpec:
    """One set of processes of one library."""

    name: str
    peer: str  # its environment is that of this name; empty for the one that runs the driver
    module: str  # what `rank.py` imports
    # before the interpreter; {n} ranks, {bin} its folder; empty: the driver starts each
    launcher: tuple[str, ...] = ()
    # gives a rank that the driver starts itself its place in the job
    variables_of: Variables | None = None
    variables: dict[str, str] = field(default_factory=dict)
    # its threads use the cores between calls: stop them when others run
    is_busy_when_idle: bool = False
    # command before each rank that the driver starts itself
    prefixes: tuple[tuple[str, ...], ...] = ()

    def python(self, peers_folder: Path) -> Path:
        """Interpreter of its environment."""
        return peers_folder / self.peer / "bin/python" if self.peer else Path(sys.executable)

    def commands(self, num_ranks: int, peers_folder: Path, socket: Path) -> list[list[str]]:
        """Processes to start: one launcher, or one process per rank. Pure."""
        python = self.python(peers_folder)
        program = [str(python), str(PROGRAM), f"benchmarks.allreduce.{self.module}", str(socket)]
        if not self.launcher:
            return [[*prefix, *program] for prefix in self.prefixes or ((),) * num_ranks]
        return [[word.format(n=num_ranks, bin=python.parent) for word in self.launcher] + program]

    def environment(self, index: int, num_ranks: int, socket: Path) -> dict[str, str]:
        """Variables of one of `commands`."""
        place = self.variables_of(index, num_ranks, socket) if self.variables_of else {}
        return {**outer_environment(), **self.variables, **place}


MPICH = ("{bin}/mpiexec", "-n", "{n}")

LIBRARIES = (
    LibrarySpec(OURS, "", "with_tnt", variables_of=tnt_variables),
    LibrarySpec("Open MPI", "openmpi", "with_mpi", OPENMPI),
    LibrarySpec("Open MPI, malloc", "openmpi", "with_mpi", OPENMPI, variables=KEEP_MEMORY),
    LibrarySpec("MPICH", "mpich", "with_mpi", MPICH),
    LibrarySpec("MPICH, malloc", "mpich", "with_mpi", MPICH, variables=KEEP_MEMORY),
    LibrarySpec(
        "Gloo",
        "gloo",
        "with_gloo",
        variables_of=torch_variables,
        variables={"OMP_NUM_THREADS": "1"},
    ),
    LibrarySpec("Horovod", "horovod", "with_horovod", OPENMPI, is_busy_when_idle=True),
)
