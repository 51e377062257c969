"""The commands that start the processes of a training, ours and those of others."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launching import OPENMPI

RANK = ("-m", "benchmarks.startup.rank")
MPICH = ("{bin}/mpiexec", "-n", "{n}")
PYTHONS = "python side by side"
OURS = ("tarantella", "tarantella, tnt.Model")


@dataclass(frozen=True)
class Launcher:
    """How a training is started."""

    name: str
    command: tuple[str, ...]  # before the arguments of the program
    num_commands: int = 1  # how often to run it at the same time
    kind: str = "plain"  # of the model, as `benchmarks.startup.rank` takes it
    is_watching: bool = True  # ends all processes when one dies


def find_launchers(num_ranks: int, peers_folder: Path) -> list[Launcher]:
    """List Python itself, ours, and those of others that are installed."""
    python = (sys.executable, *RANK)
    number = str(num_ranks)
    ours = (sys.executable, "-m", "tnt_launch", "--no-gpu", "-n", number, "--", *RANK)
    found = [
        Launcher("python", python, is_watching=False),
        Launcher(PYTHONS, python, num_ranks, is_watching=False),
        Launcher(OURS[0], ours),
        Launcher(OURS[1], ours, kind="tnt"),
    ]
    for name, words in (("Open MPI", OPENMPI), ("MPICH", MPICH)):
        folder = peers_folder / name.lower().replace(" ", "") / "bin"
        if (folder / "mpiexec").exists():
            prefix = [word.format(bin=folder, n=number) for word in words]
            found.append(Launcher(name, (*prefix, *python)))
    torchrun = shutil.which("torchrun")
    if torchrun is not None:
        found.append(Launcher("torchrun", (torchrun, f"--nproc-per-node={number}", *RANK)))
    return found
