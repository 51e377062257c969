"""Run one program as all ranks of a job, with a deadline, and leave no process behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
PLACE_OF_A_RANK = {
    f"TNT_{name}"
    for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK", "NUM_NODES", "JOB_ID")
}


class JobFailed(RuntimeError):
    """A rank failed or did not end in time; the text holds its output."""


@dataclass(frozen=True)
class Place:
    """Where one rank runs."""

    prefix: tuple[str, ...] = ()  # before the interpreter, such as `ip netns exec NAME`
    variables: Mapping[str, str] = field(default_factory=dict)  # what is particular to this rank


def rank_variables(rank: int, size: int, job_id: str) -> dict[str, str]:
    """What the launcher of Tarantella sets for the ranks of one host. Pure."""
    return {
        "TNT_RANK": str(rank),
        "TNT_SIZE": str(size),
        "TNT_LOCAL_RANK": str(rank),
        "TNT_LOCAL_SIZE": str(size),
        "TNT_JOB_ID": job_id,
    }


def threads_of_a_rank(size: int) -> int:
    """Cores for each of `size` ranks of this host."""
    return max(1, len(os.sched_getaffinity(0)) // size)


def thread_variables(size: int) -> dict[str, str]:
    """What the launcher of Tarantella sets, so that ranks do not take cores from each other."""
    threads = threads_of_a_rank(size)
    return {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(max(2, threads)),
        "OMP_NUM_THREADS": str(threads),
    }


def end_on_sigterm() -> None:
    """Let a driver that is asked to end clean up: otherwise its ranks would go on without it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def outer_environment() -> dict[str, str]:
    """For programs of this tree: our variables, without the place in a job around this process."""
    kept = {name: text for name, text in os.environ.items() if name not in PLACE_OF_A_RANK}
    paths = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def run_job(
    module: str,
    arguments: Sequence[str],
    places: Sequence[Place],
    variables: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Run `python -m module arguments` as one rank per place."""
    job_id, size = secrets.token_hex(8), len(places)
    common = {
        **outer_environment(),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **thread_variables(size),
        **variables,
    }
    command = [sys.executable, "-m", module, *arguments]
    with _running() as (processes, outputs):
        for rank, place in enumerate(places):
            environment = {**common, **rank_variables(rank, size, job_id), **place.variables}
            output = tempfile.TemporaryFile()  # noqa: SIM115 - _running closes it
            outputs.append(output)
            processes.append(
                subprocess.Popen(
                    [*place.prefix, *command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
        _wait(processes, outputs, time.monotonic() + timeout_s)


@contextmanager
def _running() -> Iterator[tuple[list[subprocess.Popen[bytes]], list[IO[bytes]]]]:
    processes: list[subprocess.Popen[bytes]] = []
    outputs: list[IO[bytes]] = []
    try:
        yield processes, outputs
    finally:
        for process in processes:
            process.kill()  # nothing happens to one that has ended
            process.wait()
        for output in outputs:
            output.close()


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], outputs: Sequence[IO[bytes]], deadline: float
) -> None:
    while True:
        codes = [process.poll() for process in processes]
        if any(codes):
            failed = [rank for rank, code in enumerate(codes) if code]
            raise JobFailed(_describe(f"failed, exit codes {codes}", failed, outputs))
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > deadline:
            late = [rank for rank, code in enumerate(codes) if code is None]
            raise JobFailed(_describe("did not end in time", late, outputs))
        time.sleep(0.1)


def _describe(what: str, ranks: Sequence[int], outputs: Sequence[IO[bytes]]) -> str:
    texts = []
    for rank in ranks:
        outputs[rank].seek(0)
        texts.append(f"rank {rank} {what}:\n{outputs[rank].read().decode(errors='replace')}")
    return "\n".join(texts)
