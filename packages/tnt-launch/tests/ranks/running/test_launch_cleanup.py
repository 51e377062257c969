"""`--cleanup` ends what is left of jobs whose launchers are gone, and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import LIMIT_S, environment, is_alive, wait_until

SURVIVOR = """
import subprocess
program = "import os, signal, sys, time; " + sys.argv[1] + "; print(flush=True); time.sleep(1000)"
child = subprocess.Popen(
    [sys.executable, "-c", program],
    start_new_session=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
)
child.stdout.readline()  # it is deaf from now on, if it is to be
if rank == 0:
    open("/dev/shm/tnt-" + os.environ["TNT_JOB_ID"] + "-left", "w").close()
    with open("job", "w") as file: file.write(os.environ["TNT_JOB_ID"])
announce(child.pid, f"child-{rank}")
time.sleep(1000)
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


class Scene:
    """A job of two ranks with a process of each in a session of its own."""

    def __init__(self, launch, folder, action="pass"):
        self.folder = folder
        self.runtime = folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.variables = {"XDG_RUNTIME_DIR": str(self.runtime)}
        self.job = launch(["-n", "2"], SURVIVOR, action, env=self.variables)
        self.children = [self.job.pid(f"child-{rank}") for rank in range(2)]
        self.id = (folder / "job").read_text()
        self.shared = Path(f"/dev/shm/tnt-{self.id}-left")

    def kill_launcher_and_watchdog(self):
        launcher = self.job.process.pid
        ranks = self.job.pids(2)
        found = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        for pid in {int(word) for word in found} - set(ranks):
            os.kill(pid, signal.SIGKILL)
        self.job.process.kill()
        self.job.process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in ranks))

    def clean_up(self, *options, script="script.py"):
        command = [sys.executable, "-m", "tnt_launch", "--cleanup", *options, "--", script]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment() | self.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def records(self):
        return os.listdir(self.runtime / "tarantella")

    def end(self):
        self.job.process.kill()
        for pid in self.children:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.shared.unlink(missing_ok=True)


@pytest.fixture
def scene(launch, tmp_path):
    started = []

    def start(action="pass"):
        started.append(Scene(launch, tmp_path, action))
        return started[0]

    yield start
    for one in started:
        one.end()


@pytest.mark.parametrize(("action", "options"), [("pass", []), (DEAF, ["--force"])])
def test_what_is_left_of_a_job_is_ended_and_told(scene, action, options):
    left = scene(action)
    left.kill_launcher_and_watchdog()
    assert all(map(is_alive, left.children))
    shown = left.clean_up("--dry-run", *options)
    assert all(map(is_alive, left.children))
    assert left.shared.exists()
    assert [f"  pid {pid} would be ended" in shown.stdout for pid in left.children] == [True, True]
    done = left.clean_up(*options)
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(map(is_alive, left.children))
    assert not left.shared.exists()
    assert left.records() == []
    launcher = left.job.process.pid
    assert done.stdout.splitlines() == [
        f"job {left.id} (script.py, in {left.folder}): its launcher (pid {launcher}) has ended, "
        "2 processes left",
        f"  {left.shared} removed",
    ]


def test_a_job_that_runs_is_left_alone_and_told_how_to_end(scene):
    running = scene()
    done = running.clean_up("--force")
    assert done.returncode == 0
    assert f"is running, left alone; to end it: kill {running.job.process.pid}\n" in done.stdout
    assert all(map(is_alive, [*running.children, *running.job.pids(2)]))
    assert running.records() == [f"{running.id}-0.json"]


def test_jobs_of_other_scripts_are_not_touched(scene):
    left = scene()
    left.kill_launcher_and_watchdog()
    done = left.clean_up(script="other.py")
    assert (done.returncode, done.stdout) == (
        0,
        "no job of yours with other.py is recorded on this host\n",
    )
    assert all(map(is_alive, left.children))


def test_a_process_that_only_looks_like_one_of_the_job_is_left_alone(scene):
    left = scene()
    left.kill_launcher_and_watchdog()
    words = [sys.executable, "-c", "import time; time.sleep(1000)", "script.py", left.id]
    with subprocess.Popen(words) as other:
        try:
            assert left.clean_up().returncode == 0
            assert other.poll() is None
        finally:
            other.kill()


def test_the_watchdog_leaves_no_record(scene):
    left = scene()
    left.job.process.kill()
    left.job.process.wait()
    wait_until(lambda: left.records() == [])
    wait_until(lambda: not any(map(is_alive, left.children)))


def test_force_alone_is_an_error(launch):
    exit_code, _, err = launch(["--force"], "").end()
    assert exit_code == 2
    assert err == (
        "tarantella: error: --force needs --cleanup. See tarantella --help. [cannot-launch]\n"
    )
