"""Start a training once, and take the times that its processes and its end tell."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.jobs import ROOT, JobFailed, outer_environment, thread_variables
from benchmarks.startup.launchers import Launcher
from benchmarks.startup.points import FIRST_STEP, KILLED

NOWHERE = "nowhere"


def seconds_to_first_step(launcher: Launcher, num_ranks: int, timeout_s: float) -> float:
    """Measure from the command to the end of the first training step of the first process."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        statuses, output, _ = _run(launcher, num_ranks, Path(folder), NOWHERE, timeout_s)
        if any(statuses):
            raise JobFailed(f"{launcher.name}: exit statuses {statuses}\n{output}")
        return _time_of(Path(folder), f"{FIRST_STEP}-0") - began


def seconds_to_end(launcher: Launcher, num_ranks: int, point: str, timeout_s: float) -> float:
    """Measure from the death of one process to the end of the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        statuses, output, ended = _run(launcher, num_ranks, Path(folder), point, timeout_s)
        if not all(statuses) or not (Path(folder) / KILLED).exists():
            raise JobFailed(f"{launcher.name}: exit statuses {statuses}, at {point}\n{output}")
        return ended - _time_of(Path(folder), KILLED)


def _time_of(folder: Path, name: str) -> float:
    return float((folder / name).read_text(encoding="ascii"))


def _run(
    launcher: Launcher, num_ranks: int, folder: Path, point: str, timeout_s: float
) -> tuple[list[int], str, float]:
    """Return exit statuses, what was printed, and when the last command ended."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**outer_environment(), **thread_variables(num_ranks), "PYTHONPATH": path}
    with (folder / "output").open("w+b") as output:
        commands = [
            subprocess.Popen(
                [*launcher.command, launcher.kind, str(folder), point],
                env=environment | {"TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for _ in range(launcher.num_commands)
        ]
        try:
            statuses = _wait(commands, time.monotonic() + timeout_s)
            ended = time.monotonic()
        except subprocess.TimeoutExpired as error:
            raise JobFailed(f"{launcher.name}: {error}") from None
        finally:
            _end(commands)
        output.seek(0)
        return statuses, output.read().decode(errors="replace"), ended


def _wait(commands: Sequence[subprocess.Popen[bytes]], deadline: float) -> list[int]:
    return [command.wait(max(deadline - time.monotonic(), 0)) for command in commands]


def _end(commands: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let launchers end their processes; the longest that one of them takes is some seconds."""
    for command in commands:
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGTERM)
            try:
                command.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(command.pid, signal.SIGKILL)
                command.wait()
