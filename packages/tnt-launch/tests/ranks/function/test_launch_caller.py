"""If the caller of a function on ranks is interrupted or dies, nothing of the job is left."""

import os
import signal
import subprocess
import sys

import pytest
from launched import ENDED_WITHIN_S, LIMIT_S, environment, is_alive, listen_to_signals, wait_until

CALLER = """
import os, subprocess, sys, tempfile, time
from tnt_launch.function.launch import launch
folder = sys.argv[1]
tempfile.tempdir = os.path.join(folder, "temporary")
def announce(pid, name):
    with open(name + ".part", "w") as file:
        file.write(str(pid))
    os.rename(name + ".part", name)
def wait():
    rank = os.environ["TNT_RANK"]
    try:
        print("ready", flush=True)
        announce(os.getpid(), os.path.join(folder, "pid-" + rank))
        announce(os.getppid(), os.path.join(folder, "launcher-" + rank))
        announce(subprocess.Popen(["sleep", "1000"]).pid, os.path.join(folder, "child-" + rank))
        time.sleep(1000)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
try:
    launch(wait, n=2, allow_gpus=False)
except KeyboardInterrupt:
    print("the caller goes on", flush=True)
"""


@pytest.fixture
def caller(tmp_path):
    """A caller whose two ranks wait, each beside a process that it has started."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "script.py").write_text(CALLER)
    process = subprocess.Popen(
        [sys.executable, "script.py", str(tmp_path)],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=listen_to_signals,
    )
    yield process
    process.kill()
    process.communicate()


def processes_of_job(folder):
    names = [f"{kind}-{rank}" for kind in ("pid", "launcher", "child") for rank in (0, 1)]
    wait_until(lambda: all((folder / name).exists() for name in names))
    return {int((folder / name).read_text()) for name in names}


def assert_nothing_is_left(pids, folder):
    wait_until(lambda: not any(is_alive(pid) for pid in pids), limit_s=ENDED_WITHIN_S)
    wait_until(lambda: list((folder / "temporary").iterdir()) == [], limit_s=ENDED_WITHIN_S)


@pytest.mark.parametrize("has_group", [False, True])
def test_an_interrupt_ends_all_ranks_and_is_raised_here(caller, tmp_path, has_group):
    pids = processes_of_job(tmp_path)
    # A terminal and a notebook interrupt the whole group.
    (os.killpg if has_group else os.kill)(caller.pid, signal.SIGINT)
    out, err = caller.communicate(timeout=LIMIT_S)
    assert out.decode() == "ready\ninterrupted\nthe caller goes on\n"
    assert err.decode() == ""
    assert caller.returncode == 0
    assert_nothing_is_left(pids, tmp_path)


def run(folder, code, *arguments):
    """Run a caller that needs nobody else, with its temporary files in a folder."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment() | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        preexec_fn=listen_to_signals,
        check=False,
    )


WHILE_WRITING = """
import os, signal, sys, time
from tnt_launch.function.launch import launch
class Interrupted:
    def write(self, text):
        os.kill(os.getpid(), signal.SIGINT)
        return sys.__stdout__.write(text)
    def flush(self):
        sys.__stdout__.flush()
def say_and_wait():  # in one piece, so that there is one interrupt
    os.write(1, b"what was said\\n")
    time.sleep(1000)
sys.stdout = Interrupted()
try:
    launch(say_and_wait, n=1, allow_gpus=False)
except KeyboardInterrupt:
    sys.__stdout__.write("the caller goes on\\n")
"""


def test_an_interrupt_loses_no_output_that_is_being_written(tmp_path):
    done = run(tmp_path, WHILE_WRITING)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "what was said\nthe caller goes on\n"
    wait_until(lambda: list(tmp_path.iterdir()) == [], limit_s=ENDED_WITHIN_S)


EARLY = """
import os, signal, sys, threading, time
from tnt_launch.function.launch import launch
interrupt = threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT))
try:
    interrupt.start()
    launch(time.sleep, n=2, args=(1000,), allow_gpus=False)
except KeyboardInterrupt:
    print("the caller goes on")
"""


@pytest.mark.parametrize("after_s", [0.02, 0.05, 0.1, 0.15, 2.0])
def test_an_interrupt_at_any_time_shows_no_traceback_of_it(tmp_path, after_s):
    done = run(tmp_path, EARLY, str(after_s))
    assert (done.returncode, done.stdout, done.stderr) == (0, "the caller goes on\n", "")
    wait_until(lambda: list(tmp_path.iterdir()) == [], limit_s=ENDED_WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_the_caller_ends_all_ranks(caller, tmp_path, number):
    pids = processes_of_job(tmp_path)
    os.kill(caller.pid, number)
    caller.wait(LIMIT_S)
    assert_nothing_is_left(pids, tmp_path)


def test_the_death_of_the_launcher_ends_all_ranks_and_is_told(caller, tmp_path):
    pids = processes_of_job(tmp_path)
    os.kill(int((tmp_path / "launcher-0").read_text()), signal.SIGKILL)
    _, err = caller.communicate(timeout=LIMIT_S)
    assert "RankFailedError: the launcher was killed, and all ranks with it." in err.decode()
    assert_nothing_is_left(pids, tmp_path)
