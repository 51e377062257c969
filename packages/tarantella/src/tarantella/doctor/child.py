"""Run a check that may hang or crash in a process of its own, with a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from tarantella.doctor.tell import begin, tell

_ENDING_S = 5.0
_MOST_LINES = 3
_MOST_BYTES = 1 << 14


def run_check(
    check: str, argv: Sequence[str], limit_s: float, environment: Mapping[str, str]
) -> None:
    """Run a process that tells its facts on this process's stdout; tell it if it fails. Local."""
    begin(check)
    # Not a pipe: what it has started may outlive it, and hold that open.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            tell("failure", check=check, why=f"it did not end within {limit_s:g} s")
            return
        if exit_code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MOST_BYTES))
            text = errors.read().decode(errors="replace")
            tell("failure", check=check, why=_reason(exit_code, text))


def _end(process: subprocess.Popen[bytes]) -> None:
    # A launcher ends its ranks upon the first of these; others need the second.
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
            return


def _reason(exit_code: int, errors: str) -> str:
    how = (
        f"it was killed by {signal.Signals(-exit_code).name}"
        if exit_code < 0
        else f"it ended with exit code {exit_code}"
    )
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return f"{how}: {' '.join(lines[-_MOST_LINES:])}" if lines else how
