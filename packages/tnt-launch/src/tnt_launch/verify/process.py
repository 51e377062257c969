"""A launcher as a process of its own, which ends when this process is asked to end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from tnt_launch.running.agent import PR_SET_PDEATHSIG
from tnt_launch.running.signals import ENDING


class EndedBySignalError(Exception):
    """This process was asked to end; the launcher has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def run_launcher(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> int:
    """Run a launcher with its output in a file, and return its exit code. Main thread only.

    A signal that comes is passed on, and is an EndedBySignalError once the launcher has ended.
    """
    with open(log, "wb") as output, _PassedOn() as signals:
        process = subprocess.Popen(
            [sys.executable, "-m", "tnt_launch", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            # Ctrl-C of a terminal reaches whole process groups: the launcher gets it from here,
            # once.
            start_new_session=True,
            preexec_fn=_asked_to_end_with_parent(),
        )
        signals.send_to(process)
        exit_code = process.wait()
    if signals.received is not None:
        raise EndedBySignalError(signals.received)
    return exit_code


class _PassedOn:
    """Pass signals that ask to end on to a process; a context manager."""

    # Those that are ignored here, as SIGHUP is under nohup, stay so.

    def __init__(self) -> None:
        self.received: int | None = None  # the first
        self._process: subprocess.Popen[bytes] | None = None
        self._old: dict[int, object] = {}

    def send_to(self, process: subprocess.Popen[bytes]) -> None:
        """Say which process is meant, also by what has come already."""
        self._process = process
        if self.received is not None:
            process.send_signal(self.received)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number
        if self._process is not None:
            self._process.send_signal(number)

    def __enter__(self) -> _PassedOn:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _asked_to_end_with_parent() -> Callable[[], None]:
    """Return what a new process does first: be asked to end if its parent is killed."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def set_up() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return set_up
