"""Run a command as a user of this environment would, with a deadline for it and all it starts."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from deadlines import deadline_s

ROOT = Path(__file__).parents[1]
DEADLINE_S = deadline_s(600)  # the longest takes 30 s on a quiet machine


class Finished(NamedTuple):
    """Exit status and what the command printed."""

    status: int
    output: str
    messages: str


def run_command(command):
    """Run a shell command from the root of the repository.

    The programs of this environment come first, and variables of a job are not handed on. A command
    that takes longer than the deadline is ended with all processes it started.
    """
    variables = {name: text for name, text in os.environ.items() if not name.startswith("TNT_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**variables, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, messages = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, messages = process.communicate()
            messages += f"\nended after {DEADLINE_S} s"
        return Finished(process.returncode, output, messages)


@functools.cache
def run_once(command):
    """Run a shell command like `run_command`, or return what became of it in an earlier test."""
    return run_command(command)
