"""Joining a job over GPI-2: what is refused, and what is said."""

import os
import resource
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from engines import GPI2
from gpi2_found import needs_gpi2

import tnt_comm
from tnt_comm.testing import Host, observe_ranks, run_ranks

pytestmark = [needs_gpi2, pytest.mark.timeout(300)]


def total() -> float:
    return float(tnt_comm.allreduce(np.ones(1))[0])


def join_late_or_never(latecomer: int) -> None:
    if int(os.environ["TNT_RANK"]) != latecomer:
        tnt_comm.init()


def join_as(wrong_rank: int, name: str, value: str) -> None:
    if int(os.environ["TNT_RANK"]) == wrong_rank:
        os.environ[name] = value
    tnt_comm.init()


def test_two_jobs_run_on_one_host_at_once() -> None:
    sums: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: sums.append(run_ranks(total, 2, env=GPI2, timeout_s=120)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [[2.0, 2.0], [2.0, 2.0]]


def test_a_rank_that_never_comes_is_reported_and_ends_the_wait() -> None:
    env = {**GPI2, "TNT_TIMEOUT_S": "4", "TNT_STALL_S": "3"}
    reports = observe_ranks(join_late_or_never, 2, 1, env=env, timeout_s=60, grace_s=30)
    assert reports[0].outcome == "raised"
    assert "CommTimeoutError: rank 0: GPI-2 could not be started within 4 s" in reports[0].error
    assert "No answer from rank 1 (host localhost)" in reports[0].error
    assert "has waited 3 s for the other ranks to start GPI-2" in reports[0].output
    assert reports[0].exit_code == 1


def test_a_missing_rank_of_the_same_host_is_named() -> None:
    env = {"TNT_TIMEOUT_S": "2"}
    hosts = (Host(2), Host(1))
    reports = observe_ranks(
        join_late_or_never, 3, 1, env=env, timeout_s=60, grace_s=30, hosts=hosts
    )
    assert "rank 1 of 2 did not join" in reports[0].error


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("GASPI_RANK", "0", "GASPI_RANK=0 and TNT_RANK=1"),
        ("GASPI_NRANKS", "3", "GASPI_NRANKS=3 and TNT_SIZE=2"),
        ("GASPI_RANK", "one", "Environment variable GASPI_RANK must be an integer"),
    ],
)
def test_variables_that_contradict_each_other_are_named(
    name: str, value: str, expected: str
) -> None:
    env = {**GPI2, "TNT_TIMEOUT_S": "3"}
    report = observe_ranks(join_as, 2, 1, name, value, env=env, timeout_s=60)[1]
    assert expected in report.error
    assert "ValueError" in report.error


def test_ranks_of_another_layout_of_hosts_are_refused_by_all() -> None:
    """Rank 2 believes that it is alone on a third host."""
    hosts = (Host(1), Host(1), Host(1))
    reports = observe_ranks(
        join_as, 3, 2, "TNT_NODE_RANK", "1", env=GPI2, timeout_s=120, hosts=hosts
    )
    for report in reports:
        assert "The environments of the ranks contradict each other: rank 2" in report.error
        assert "TNT_LOCAL_RANK=0, but it is number 1 of node 1" in report.error


@pytest.mark.parametrize("offset", [0, 256, 512, 768])
def test_a_port_that_is_taken_is_told(offset: int) -> None:
    """Side channel, start, TCP device and presence of rank 0."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = {**GPI2, "TNT_GPI2_PORT": str(port - offset)}
        report = observe_ranks(total, 1, env=env, timeout_s=60)[0]
    assert report.exit_code == 1
    assert f"CommError: rank 0: GPI-2 could not be started, since port {port} " in report.error
    assert "is another job using its ports? See TNT_GPI2_PORT" in report.error


def test_a_machine_file_that_is_not_there_is_told() -> None:
    env = {**GPI2, "GASPI_MFILE": "/nowhere/machines"}
    report = observe_ranks(total, 1, env=env, timeout_s=60)[0]
    assert report.exit_code == 1
    assert (
        "rank 0: the machine file GASPI_MFILE='/nowhere/machines' cannot be used: "
        "No such file or directory." in report.error
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("localhost\n" * 40, "it has 40 host(s), but the job 2 rank(s)"),
        ("localhost\n", "it has 1 host(s), but the job 2 rank(s)"),
        ("localhost\n" + "x" * 64 + "\n", "line 2 has 64 characters, but GPI-2 reads 62"),
        ("localhost\r\n" * 2, "line 1 has blanks, a carriage return"),
        ("localhost\nlocalhost", "its last line has no end"),
        ("", "it has 0 host(s), but the job 2 rank(s)"),
        ("one\nlocalhost\n", "line for this rank is number 0 of host 'localhost'"),
    ],
)
def test_a_machine_file_that_gpi2_misreads_is_refused(
    content: str, expected: str, tmp_path: Path
) -> None:
    """Nothing crashes, and nobody waits for the deadline."""
    file = tmp_path / "machines"
    file.write_text(content)
    env = {**GPI2, "GASPI_MFILE": str(file)}
    reports = observe_ranks(total, 2, env=env, timeout_s=60, grace_s=10)
    assert expected in reports[1].error
    assert "UsageError" in reports[1].error or "ValueError" in reports[1].error


@pytest.mark.parametrize("kind", ["endless", "pipe", "large"])
def test_a_machine_file_that_may_have_no_end_is_refused(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "machines"
    if kind == "endless":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.touch()
        os.truncate(file, 1 << 40)
    env = {**GPI2, "GASPI_MFILE": str(file)}
    report = observe_ranks(total, 1, env=env, timeout_s=30)[0]
    assert f"GASPI_MFILE='{file}' cannot be used: it must be a regular file" in report.error


def num_open_files() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


def join_with_open_files(more: int) -> str:
    limit = num_open_files() + more
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with pytest.raises(tnt_comm.CommError) as caught:
        tnt_comm.init()
    return str(caught.value)


@pytest.mark.parametrize("more", [10, 35])
def test_a_limit_of_open_files_that_is_too_low_is_named(more: int) -> None:
    env = {**GPI2, "TNT_TIMEOUT_S": "10"}
    for message in run_ranks(join_with_open_files, 2, more, env=env, timeout_s=60):
        assert "GPI-2 cannot be started among 2 ranks with fewer than" in message
        assert "The limit of open files (ulimit -n) is" in message


def total_with_soft_limit(more: int) -> float:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_open_files() + more, hard))
    return total()


def test_a_soft_limit_of_open_files_is_raised() -> None:
    """GPI-2 does it only in some places."""
    env = {**GPI2, "TNT_TIMEOUT_S": "10"}
    assert run_ranks(total_with_soft_limit, 2, 38, env=env, timeout_s=60) == [2.0, 2.0]


def join_with_threads(more: int) -> str:
    """As a user who has no other process."""
    limit = len(os.listdir("/proc/self/task")) + more
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    os.setresuid(54321, 54321, 54321)
    with tempfile.NamedTemporaryFile() as machines:
        machines.write(b"localhost\n")
        machines.flush()
        os.environ["GASPI_MFILE"] = machines.name
        with pytest.raises(tnt_comm.CommError) as caught:
            tnt_comm.init()
    return str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("more", [1, 2])
def test_a_limit_of_threads_that_is_too_low_is_named(more: int) -> None:
    [message] = run_ranks(join_with_threads, 1, more, env=GPI2, timeout_s=60)
    assert "The limit of processes and threads (ulimit -u) is" in message


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_ranks_that_do_not_come_are_named(missing: int) -> None:
    """By rank 0; the others know only whether rank 0 has come."""
    env = {**GPI2, "TNT_TIMEOUT_S": "6", "TNT_STALL_S": "2"}
    reports = observe_ranks(join_late_or_never, 3, missing, env=env, timeout_s=60, grace_s=30)
    first = 1 if missing == 0 else 0
    for text in (reports[first].output, reports[first].error):
        assert f"No answer from rank {missing} (host localhost) on port" in text
    for report in reports:
        if report.rank != missing:
            assert report.outcome == "raised"
            assert "GPI-2 could not be started within 6 s" in report.error
    if missing != 0:
        other = reports[3 - missing]
        assert "Rank 0 has started, and names the ranks that have not." in other.output


def stop_in_the_start(stopped: int) -> float:
    """Begin to start GPI-2; the process of one rank is stopped meanwhile."""
    if int(os.environ["TNT_RANK"]) == stopped:
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -STOP {os.getpid()}"])
    return total()


def test_a_rank_that_stops_while_it_starts_ends_the_wait_at_the_deadline() -> None:
    """GPI-2 itself does not return from some of its calls then, whatever its own deadline."""
    env = {**GPI2, "TNT_TIMEOUT_S": "8", "TNT_STALL_S": "2"}
    begin = time.monotonic()
    reports = observe_ranks(stop_in_the_start, 3, 1, env=env, timeout_s=60, grace_s=2)
    assert time.monotonic() - begin < 40
    for rank in (0, 2):
        assert reports[rank].outcome == "raised"
        assert "within 8 s" in reports[rank].error
