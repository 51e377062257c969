"""In which ways a model is trained, and what each is compared with."""

# Every way has a ceiling of its own: as many independent processes of the same framework, with the
# same threads, at the same time. Everything is started as a user of the framework would; nobody is
# bound to a core.

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import ROOT, outer_environment, thread_variables
from benchmarks.launching import OPENMPI, tensorflow_variables, tnt_variables, torch_variables
from benchmarks.process_set import Start

PROGRAM = ROOT / "benchmarks/training/rank.py"
Variables = Callable[[int, int, Path], dict[str, str]]


@dataclass(frozen=True)
class Way:
    """One way of training."""

    name: str
    module: str  # what `rank.py` imports
    kind: str  # what that module is asked for
    # None for independent processes and where the launcher gives ranks their place
    variables_of: Variables | None = None
    environment: str = ""  # below the peers' folder; empty for that which runs the driver
    beside: str = ""  # folder of packages below the peers' folder that is added to the environment
    # before the interpreter, as `launching.OPENMPI`; empty: the driver starts each rank
    launcher: tuple[str, ...] = ()
    # its threads use the cores between steps: stop them when others run
    is_busy_when_idle: bool = False

    def missing(self, peers_folder: Path) -> str:
        """What is not installed, in words; empty if nothing. Local."""
        needed = [self.python(peers_folder)]
        if self.beside:
            needed.append(peers_folder / self.beside)
        return ", ".join(f"{path} is not there" for path in needed if not path.exists())

    def python(self, peers_folder: Path) -> Path:
        """Interpreter of its environment. Pure."""
        if self.environment:
            return peers_folder / self.environment / "bin/python"
        return Path(sys.executable)

    def starts(
        self, size: int, peers_folder: Path, arguments: Sequence[str], socket: Path
    ) -> list[Start]:
        """Processes to start: one launcher, or one process per rank."""
        python = self.python(peers_folder)
        program = [str(python), str(PROGRAM), self.module, self.kind, str(socket), *arguments]
        if self.launcher:
            launcher = [word.format(n=size, bin=python.parent) for word in self.launcher]
            return [Start([*launcher, *program], self._variables(size, peers_folder))]
        place_of = self.variables_of or (lambda *_: {})
        return [
            Start(program, {**self._variables(size, peers_folder), **place_of(rank, size, socket)})
            for rank in range(size)
        ]

    def _variables(self, size: int, peers_folder: Path) -> dict[str, str]:
        variables = {
            **outer_environment(),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **thread_variables(size),
        }
        if self.beside:
            paths = [variables["PYTHONPATH"], str(peers_folder / self.beside)]
            variables["PYTHONPATH"] = os.pathsep.join(paths)
        return variables


@dataclass(frozen=True)
class Comparison:
    """Ways that share a ceiling, and are measured in turn."""

    ceiling: Way  # independent processes
    ways: tuple[Way, ...]
    size: int | None = None  # ranks; None for what the command line says
    goal: float | None = None  # step of the ceiling / step of the first way; None for peers


PLAIN = Way("plain Keras", "with_keras", "plain")
TNT = Way("tnt", "with_keras", "tnt", tnt_variables)
OUR_UNFUSED = Way("tnt, fused_batch_norm=False", "with_keras", "tnt_unfused", tnt_variables)
"""Batch normalisation as Keras computes it: only so are the steps those of plain Keras."""

TORCH = Way("torch", "with_torch", "plain", environment="gloo")
DDP = Way("torch DDP, Gloo", "with_torch", "ddp", torch_variables, environment="gloo")
TORCH_OF_HOROVOD = Way("torch", "with_torch", "plain", environment="horovod")
HOROVOD = Way(
    "Horovod with torch",
    "with_torch",
    "horovod",
    environment="horovod",
    launcher=OPENMPI,
    is_busy_when_idle=True,
)
TF_KERAS = Way("tf_keras", "with_keras", "tf_keras", beside="tf_keras")
MWMS = Way(
    "MultiWorkerMirroredStrategy",
    "with_keras",
    "mwms",
    tensorflow_variables,
    beside="tf_keras",
)

COMPARISONS = {
    "one": Comparison(PLAIN, (OUR_UNFUSED, TNT), size=1, goal=0.99),
    "ranks": Comparison(PLAIN, (OUR_UNFUSED, TNT), goal=0.97),
    "ddp": Comparison(TORCH, (DDP,)),
    "horovod": Comparison(TORCH_OF_HOROVOD, (HOROVOD,)),
    "mwms": Comparison(TF_KERAS, (MWMS,)),
}

NOT_MEASURED = {
    "Horovod with TensorFlow": "its release 0.28.1 does not compile with TensorFlow 2.21",
}
"""Peers for which there is no way, and why."""
