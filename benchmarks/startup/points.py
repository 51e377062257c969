"""The points of a training at which a process tells the time, or kills itself."""

from __future__ import annotations

import os
import signal
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

RANK_VARIABLES = ("TNT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
VICTIMS = {"import": 1, "tracing": 1, "training": 1, "save": 0}
"""Where a rank kills itself, and which; the first one saves."""
FIRST_STEP = "step"
KILLED = "killed"


class Points:
    """Where this process is in the training."""

    def __init__(self, folder: Path, fatal: str) -> None:
        """Write a file for each point to `folder`, and kill this rank at the fatal one."""
        ranks = [os.environ[name] for name in RANK_VARIABLES if name in os.environ]
        # as whatever has started this process tells it, 0 if nothing does
        self.rank = int(next(iter(ranks), "0"))
        self.is_training = False  # the first epoch has begun
        self._folder, self._fatal = folder, fatal

    def reach(self, point: str) -> None:
        """Tell the driver the time of the first step, or die if this is the point for it."""
        if point == FIRST_STEP:
            self._tell(f"{FIRST_STEP}-{self.rank}")
        if point == self._fatal and self.rank == VICTIMS[point]:
            self._tell(KILLED)
            os.kill(os.getpid(), signal.SIGKILL)

    def _tell(self, name: str) -> None:
        part = self._folder / f".{name}"
        part.write_text(str(time.monotonic()), encoding="ascii")
        part.rename(self._folder / name)


class ImportWatch:
    """A finder of modules that finds none, and notices that TensorFlow begins to import its own."""

    def __init__(self, points: Points) -> None:
        """Note whom to tell."""
        self._points = points

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """As Python asks every finder."""
        if name == "tensorflow.python":
            self._points.reach("import")
        return None
