"""A training job ends, whatever happens to one of its ranks, and says what happened."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from cases import cases

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "train_without_end.py"
ROOT = pathlib.Path(__file__).parents[2]
LEAVING_SCRIPT = SCRIPT.with_name("leave_before_joining.py")
LAUNCHER = [sys.executable, "-m", "tnt_launch", "--no-gpu"]
START_DEADLINE_S = 120
END_DEADLINE_S = 30  # the launcher takes a second; a machine may be slow


def listen_to_ctrl_c() -> None:
    """Tests in the background of a shell ignore Ctrl-C, and so would all that they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def started_job(
    folder: pathlib.Path, size: int, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """A job of some ranks; whatever is left of it is killed at the end."""
    launcher = subprocess.Popen(
        [*LAUNCHER, "-n", str(size), "--", SCRIPT, folder, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen_to_ctrl_c,
        env=dict(os.environ),
    )
    try:
        yield launcher
    finally:
        launcher.kill()
        launcher.communicate()


def wait_for_training(
    folder: pathlib.Path, size: int, launcher: subprocess.Popen[str]
) -> list[int]:
    """Waits until all ranks are in the middle of the epoch; returns their process numbers."""
    deadline = time.monotonic() + START_DEADLINE_S
    files = [folder / str(rank) for rank in range(size)]
    while not all(file.exists() for file in files):
        assert launcher.poll() is None, launcher.stderr and launcher.stderr.read()
        assert time.monotonic() < deadline, "the job did not start to train"
        time.sleep(0.05)
    return [int(file.read_text()) for file in files]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shared_memory(folder: pathlib.Path) -> list[str]:
    """What the job has in shared memory under a name; other jobs may run on this host."""
    job = (folder / "job").read_text()
    return [name for name in os.listdir("/dev/shm") if job in name]


def error_line(script: pathlib.Path, text: str) -> int:
    """The number of the line of a script that holds `text`."""
    return 1 + [text in line for line in script.read_text().splitlines()].index(True)


@pytest.mark.thorough  # a killed rank also in test_plain_keras, all else in the tests below
@pytest.mark.parametrize(("size", "victim"), [(2, 0), (3, 0), (3, 2)])
def test_killed_rank_ends_the_job_and_is_named(
    size: int, victim: int, tmp_path: pathlib.Path
) -> None:
    with started_job(tmp_path, size) as launcher:
        pids = wait_for_training(tmp_path, size, launcher)
        assert shared_memory(tmp_path) == []
        os.kill(pids[victim], signal.SIGKILL)
        _, messages = launcher.communicate(timeout=END_DEADLINE_S)

    assert launcher.returncode == 128 + signal.SIGKILL
    first = messages.index(f"rank {victim}")
    assert "SIGKILL" in messages[first:]
    assert f"pid {pids[victim]}" in messages
    assert not any(is_alive(pid) for pid in pids)
    assert shared_memory(tmp_path) == []


@pytest.mark.thorough  # while it trains, above; elsewhere also in tests of the benchmark
@pytest.mark.parametrize(("point", "victim"), [("import", 1), ("tracing", 1), ("save", 0)])
def test_a_rank_may_be_killed_wherever_it_is(
    point: str, victim: int, tmp_path: pathlib.Path
) -> None:
    """While it imports TensorFlow, traces its step, or writes the model that others wait for."""
    done = subprocess.run(
        [*LAUNCHER, "-n", "2", "--", "-m", "benchmarks.startup.rank", "tnt", tmp_path, point],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    first = rf"^tarantella: rank {victim} on \S+ \(pid \d+\) failed first.*: killed by SIGKILL"
    assert re.search(rf"{first} \[rank-failed\]$", done.stderr, re.MULTILINE)
    pids = [int(pid) for pid in re.findall(r"\(pid (\d+)\)", done.stderr)]
    assert len(set(pids)) == 2
    assert not any(is_alive(pid) for pid in pids)


@cases("size", [2], thorough=[3])
def test_exception_of_one_rank_ends_the_job_with_its_traceback_and_exit_code(
    size: int, tmp_path: pathlib.Path
) -> None:
    with started_job(tmp_path, size, "1") as launcher:
        _, messages = launcher.communicate(timeout=START_DEADLINE_S)

    assert launcher.returncode == 1
    assert "tarantella: rank 1 on " in messages, messages
    report = messages[messages.index("tarantella: rank 1 on ") :].splitlines()
    line = error_line(SCRIPT, "this rank does not like step 20")
    cause = "RuntimeError: this rank does not like step 20"
    path = re.escape(SCRIPT.name)  # below the folder in which the tests run, or from the root
    place = rf"exit code 1: \S*{path}:{line}"
    first = rf"failed first, in epoch 1, step 21: {place}: {cause} \[rank-failed\]$"
    assert re.search(first, report[0])
    assert report[-1] == cause
    assert shared_memory(tmp_path) == []


@pytest.mark.thorough
def test_a_rank_that_leaves_before_it_joins_ends_the_job_with_a_sentence() -> None:
    """The others would wait for it until their timeout, which is 600 s."""
    done = subprocess.run(
        [*LAUNCHER, "-n", "2", "--", LEAVING_SCRIPT],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=START_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tnt_comm.errors.PeerLostError: leave_before_joining.py:")
    assert "fit: rank 0: rank 1 has ended (exit code 0) before it joined" in last
    assert re.search(r"^rank 1 on .*: left with exit code 0$", done.stderr, re.MULTILINE)


def test_ctrl_c_ends_all_ranks(tmp_path: pathlib.Path) -> None:
    with started_job(tmp_path, 2) as launcher:
        pids = wait_for_training(tmp_path, 2, launcher)
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=END_DEADLINE_S)

    assert launcher.returncode == 128 + signal.SIGINT
    assert not any(is_alive(pid) for pid in pids)
    assert shared_memory(tmp_path) == []
