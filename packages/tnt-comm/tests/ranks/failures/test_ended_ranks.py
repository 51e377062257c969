"""Nobody waits for a rank whose process has ended, and nobody joins a job by asking who it is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engines import GPI2
from gpi2_found import needs_gpi2

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, PeerLostError, TensorSpec
from tnt_comm.testing import Host, observe_ranks, run_ranks

TIMEOUT_S = 100.0
AT_ONCE_S = 20.0
"""Far less than the job's timeout, and time enough on a busy machine."""

LATE = 1


def note_of_end(rank: int) -> Path:
    """Where the launcher says how a rank has ended."""
    return Path(f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-{rank}")


def leave_note(rank: int, note: str) -> None:
    """Say that a rank has ended, in one piece as the launcher does."""
    path = note_of_end(rank)
    part = path.with_name(f"{path.name}-part")
    part.write_text(note)
    part.rename(path)


@pytest.fixture(autouse=True)
def no_note_stays() -> Iterator[None]:
    yield
    for note in Path("/dev/shm").glob("tnt-*-ended-*"):
        if note.stat().st_uid == os.geteuid() and note.read_text() == NOTE:
            note.unlink()


NOTE = f"exit code 0\nwritten by process {os.getpid()}"


def join_while_one_has_ended(note: str, delay_s: float) -> tuple[str, float] | None:
    """Wait for rank 1, which ends before it joins, and return the error and the seconds."""
    if int(os.environ["TNT_RANK"]) == LATE:
        time.sleep(delay_s)
        leave_note(LATE, note)
        return None
    begin = time.monotonic()
    with pytest.raises(PeerLostError) as caught:
        tnt_comm.init()
    return str(caught.value), time.monotonic() - begin


def joins(size: int, env: dict[str, str], hosts: tuple[Host, ...] | None = None) -> list[str]:
    env = {"TNT_TIMEOUT_S": str(TIMEOUT_S), **env}
    reports = observe_ranks(
        join_while_one_has_ended, size, NOTE, 1.0, env=env, timeout_s=90, grace_s=30, hosts=hosts
    )
    errors = []
    for report in reports:
        assert report.outcome == "returned", report.full_text()
        if report.rank != LATE:
            error, seconds = report.value
            assert seconds < AT_ONCE_S
            errors.append(error)
    return errors


def expected_error(rank: int) -> str:
    return (
        f"rank {rank}: rank 1 has ended (exit code 0) before it joined the job. Every rank must "
        "run the same script up to its end; look at the output of that rank first. [peer-lost]"
    )


def test_a_rank_that_ended_before_it_joined_ends_the_wait_of_all() -> None:
    assert joins(3, {}) == [expected_error(0), expected_error(2)]


@needs_gpi2
@pytest.mark.timeout(300)
def test_a_rank_that_ended_ends_the_wait_for_gpi2() -> None:
    assert joins(3, GPI2 | {"TNT_TIMEOUT_S": str(TIMEOUT_S)}) == [
        expected_error(0),
        expected_error(2),
    ]


@needs_gpi2
@pytest.mark.timeout(300)
def test_a_rank_that_ended_ends_the_wait_of_several_hosts() -> None:
    """Rank 0 waits for it in shared memory, rank 2 in GPI-2."""
    assert joins(3, {}, (Host(2), Host(1))) == [expected_error(0), expected_error(2)]


def join_after_the_first_has_ended(note: str) -> str:
    if int(os.environ["TNT_RANK"]) == 0:
        leave_note(0, note)
        return ""
    with pytest.raises(PeerLostError) as caught:
        tnt_comm.init()
    return str(caught.value)


def test_a_first_rank_that_ended_is_named() -> None:
    values = run_ranks(join_after_the_first_has_ended, 2, NOTE, env={"TNT_TIMEOUT_S": "100"})
    assert values[1].startswith("rank 1: rank 0 has ended (exit code 0) before it joined the job.")


def join_and_leave(how: str) -> tuple[str, float]:
    """Wait in a collective for a rank that ends without an error."""
    reducer = GradientReducer(FusionPlan([TensorSpec("kernel", "float32", 9)], 0))
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LATE:
        sys.exit(0)

    def sum_bucket() -> None:
        reducer.start(0, np.ones(9, np.float32))
        reducer.finish(0)

    def gather() -> None:
        tnt_comm.allgather(np.ones(3), label="end of epoch", caller="train.py:12")

    wait = {"bucket": sum_bucket, "collective": gather}[how]
    begin = time.monotonic()
    with pytest.raises(PeerLostError) as caught:
        wait()
    return str(caught.value), time.monotonic() - begin


@pytest.mark.parametrize("how", ["bucket", "collective"])
@pytest.mark.parametrize("env", [{}, pytest.param(GPI2, marks=needs_gpi2)], ids=["shm", "gpi2"])
def test_a_rank_that_leaves_ends_the_wait_of_the_others(how: str, env: dict[str, str]) -> None:
    env = {**env, "TNT_TIMEOUT_S": str(TIMEOUT_S)}
    reports = observe_ranks(join_and_leave, 2, how, env=env, timeout_s=90, grace_s=30)
    error, seconds = reports[0].value
    assert "has finished: it ended without making this call" in error
    assert ("'end of epoch' from train.py:12" in error) == (how == "collective")
    assert seconds < AT_ONCE_S


def wait_for_one_that_exits(note: str) -> str:
    """Wait for rank 1, which ends its process without leaving the job."""
    tnt_comm.barrier()
    if tnt_comm.get_rank() == LATE:
        time.sleep(0.5)  # until its part of the barrier has left; nobody waits for that
        if note:
            leave_note(LATE, note)
        os._exit(0)
    with pytest.raises(PeerLostError) as caught:
        tnt_comm.barrier()
    return str(caught.value)


@pytest.mark.parametrize("note", [NOTE, ""], ids=["launcher", "no launcher"])
@pytest.mark.parametrize("env", [{}, pytest.param(GPI2, marks=needs_gpi2)], ids=["shm", "gpi2"])
def test_what_is_said_of_a_rank_that_exits_without_leaving_is_true(
    note: str, env: dict[str, str]
) -> None:
    reports = observe_ranks(wait_for_one_that_exits, 2, note, env=env, timeout_s=90, grace_s=30)
    known = "which is dead: it ended (exit code 0) without leaving the job. Look at"
    unknown = "which is dead: it ended without leaving the job (killed, crashed or os._exit). Look"
    assert (known if note else unknown) in reports[0].value


def ask_alone() -> list[object]:
    """Ask who this rank is, before all others have started and after the end."""
    before = [tnt_comm.get_rank(), tnt_comm.get_size()]
    local = [tnt_comm.get_local_rank(), tnt_comm.get_local_size()]
    assert not tnt_comm.is_initialized()
    assert not list(Path("/dev/shm").glob(f"tnt-{os.environ['TNT_JOB_ID']}-*"))
    assert len(os.listdir("/proc/self/task")) == 1
    return before + local


def test_who_a_rank_is_does_not_need_the_others() -> None:
    code = f"import sys; sys.path += {sys.path!r}; "
    code += "import test_ended_ranks; print(test_ended_ranks.ask_alone())"
    variables = {"TNT_RANK": "5", "TNT_SIZE": "8", "TNT_LOCAL_RANK": "1", "TNT_LOCAL_SIZE": "4"}
    variables |= {"TNT_NUM_NODES": "2", "TNT_NODE_RANK": "1", "TNT_JOB_ID": f"alone{os.getpid()}xy"}
    # One thread for numpy, so that all others would be ours.
    env = {**os.environ, **variables, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=110
    )
    assert (done.stdout, done.stderr) == ("[5, 8, 1, 4]\n", "")


@pytest.mark.parametrize("ask", ["get_rank", "get_size", "get_local_rank", "get_local_size"])
def test_a_malformed_variable_is_named_by_whoever_asks_first(ask: str) -> None:
    code = f"import tnt_comm\nprint('imported')\ntnt_comm.{ask}()"
    env = {**os.environ, "TNT_STALL_S": "soon"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=110
    )
    assert done.stdout == "imported\n"
    assert "ValueError: Environment variable TNT_STALL_S must be" in done.stderr
