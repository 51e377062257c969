"""Run a program of this benchmark as one process, or as the ranks of a job, with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.results import Options, arguments_for, read_results
from benchmarks.jobs import ROOT, outer_environment

END_S = 5
GRACE_S = 2  # of ranks that the launcher ends


@dataclass(frozen=True)
class Program:
    """What is started: a module of this folder, by itself or by the launcher."""

    module: str
    num_ranks: int | None = None  # None: one process without a launcher
    sums: str = "auto"  # TNT_GPU_SUMS
    others: tuple[str, ...] = ()  # arguments behind the folder and the options
    limit_s: float = 30.0
    status: int = 0  # with which it ends if it has come to its results
    answering: tuple[int, ...] | None = None  # ranks without which there are none; None: all

    def has_answered(self, ended: Ended) -> bool:
        """Whether it has come to its results. Pure."""
        ranks = range(self.num_ranks or 1) if self.answering is None else self.answering
        return ended.status == self.status and ended.results.keys() >= set(ranks)


@dataclass(frozen=True)
class Ended:
    """What became of it."""

    status: int | None  # None: it was ended at its limit
    output: str
    results: dict[int, dict[str, Any]]  # by rank
    seconds: float


def start_words(program: Program) -> list[str]:
    """The words before the program's arguments. Pure."""
    module = ["-m", f"benchmarks.gpu.{program.module}"]
    if program.num_ranks is None:
        return [sys.executable, *module]
    # A rank that hangs ends with a message before the launcher is ended.
    limits = ["--timeout", f"{program.limit_s * 2 / 3:.0f}", "--grace", str(GRACE_S)]
    return [
        sys.executable,
        "-m",
        "tnt_launch",
        "-n",
        str(program.num_ranks),
        *limits,
        "--",
        *module,
    ]


def variables_of(program: Program, environment: Mapping[str, str]) -> dict[str, str]:
    """Those that give all ranks the first of the GPUs that this process sees. Pure."""
    listed = environment.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    number = program.num_ranks or 1
    return {
        "CUDA_VISIBLE_DEVICES": ",".join([listed] * number),
        "TNT_GPUS_PER_NODE": str(number),
        "TNT_GPU_SUMS": program.sums,
    }


def run_program(program: Program, options: Options) -> Ended:
    """Run it; whatever happens is told and is no error here."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        arguments = arguments_for(Path(folder), options, *program.others)
        process = subprocess.Popen(
            [*start_words(program), *arguments],
            env={**outer_environment(), **variables_of(program, os.environ)},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = _status_of(process, program.limit_s)
        finally:
            _end(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
        return Ended(status, text, read_results(Path(folder)), time.monotonic() - begin)


def _status_of(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask, since a launcher that is asked ends its ranks; then insist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            _status_of(process, END_S)


def last_lines(text: str, number: int = 12) -> Sequence[str]:
    """What a program has said at its end. Pure."""
    return text.rstrip().splitlines()[-number:]
