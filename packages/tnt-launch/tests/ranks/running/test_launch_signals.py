"""A scheduler ends a job by signals: ranks have time to save, and the job can go on later."""

import os
import signal

import pytest
from launched import ENDED_WITHIN_S, is_alive, wait_until

WAIT = "\ntime.sleep(1000)\n"
SAVING = """
count = 0
def save(number, frame):
    global count
    count += 1
    if count == 1:
        os.kill(os.getppid(), number)  # one event brings several signals
        announce(number, f"asked-{rank}")
        wait_for("go")
        announce(count, f"saved-{rank}")
        sys.exit(75)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, save)
announce(1, f"ready-{rank}")
"""
CHILD = """
import subprocess
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
announce(child.pid, f"child-{rank}")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_ranks_are_asked_once_and_may_save_with_the_help_of_what_they_started(launch, number):
    job = launch(["-n", "2"], CHILD + SAVING + WAIT)
    for rank in range(2):
        job.pid(f"ready-{rank}")
    children = [job.pid(f"child-{rank}") for rank in range(2)]
    job.process.send_signal(number)
    job.process.send_signal(signal.SIGCONT)
    assert [job.pid(f"asked-{rank}") for rank in range(2)] == [number] * 2
    assert all(is_alive(pid) for pid in children)
    (job.folder / "go").touch()
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 75
    assert [job.pid(f"saved-{rank}") for rank in range(2)] == [1, 1]
    assert err.splitlines() == [
        f"tarantella: asked to end by {signal.Signals(number).name}, all 2 ranks have left in "
        "order (exit code 75): run the job again to continue"
    ]
    wait_until(lambda: not any(is_alive(pid) for pid in children))


def test_a_rank_that_does_not_leave_is_killed_after_the_grace(launch):
    deaf = "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nannounce(1, f'ready-{rank}')" + WAIT
    job = launch(["-n", "2", "--grace", "0.5"], deaf)
    for rank in range(2):
        job.pid(f"ready-{rank}")
    job.process.send_signal(signal.SIGTERM)
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 128 + signal.SIGTERM
    assert "asked to end by SIGTERM, 2 of 2 ranks were killed after 0.5 s (--grace)\n" in err


def test_ranks_that_the_signal_reached_alone_leave_in_the_same_way(launch):
    job = launch(["-n", "2"], SAVING.replace("os.kill(os.getppid(), number)", "pass") + WAIT)
    for rank in range(2):
        job.pid(f"ready-{rank}")
    (job.folder / "go").touch()
    for pid in job.pids(2):
        os.kill(pid, signal.SIGTERM)
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 75
    assert "asked to end by a signal to its ranks, all 2 ranks have left in order" in err


def test_a_job_that_is_done_before_its_time_is_over_went_well(launch):
    script = "\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nannounce(1, 'ready')\nwait_for('go')"
    job = launch(["-n", "1"], script)
    job.pid("ready")
    job.process.send_signal(signal.SIGTERM)
    (job.folder / "go").touch()
    assert job.end(ENDED_WITHIN_S) == (0, "", "")


SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/asked
case $2 in
show)
  echo "JobId=7 JobState=$STATE Reason=$WHY Restarts=$RESTARTS BatchFlag=1 Requeue=$MAY";;
esac
"""


@pytest.fixture
def slurm(tmp_path):
    """Variables of a job of SLURM, whose `scontrol` notes what it is asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "scontrol").write_text(SCONTROL.format(folder=tmp_path))
    (tools / "scontrol").chmod(0o755)
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    job = {"STATE": "RUNNING", "RESTARTS": "1", "MAY": "1", "WHY": "None"}
    return {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1", "PATH": path, **job}


def leave_in(launch, variables):
    """End of a job with --requeue whose rank leaves with 75."""
    job = launch(["-n", "1", "--requeue"], "sys.exit(75)", env=variables)
    exit_code, _, err = job.end()
    asked = job.folder / "asked"
    return exit_code, err.splitlines()[-1], asked.read_text() if asked.exists() else ""


@pytest.mark.parametrize("change", [{}, {"STATE": "COMPLETING", "WHY": "TimeLimit"}])
def test_slurm_is_asked_to_run_a_job_again_that_can_go_on_or_is_at_its_limit(launch, slurm, change):
    exit_code, last, asked = leave_in(launch, slurm | change)
    assert exit_code == 75
    assert "SLURM runs job 7 again: " in last
    assert asked.splitlines()[-1] == "requeue 7"


@pytest.mark.parametrize(
    ("restarts", "why"), [("1", "it has been cancelled"), ("2", "it is already queued again")]
)
def test_a_job_that_was_cancelled_or_comes_again_is_not_asked_for(launch, slurm, restarts, why):
    change = {"STATE": "COMPLETING", "RESTARTS": restarts}
    exit_code, last, asked = leave_in(launch, slurm | change)
    assert exit_code == 75
    assert last == f"tarantella: SLURM is not asked to run job 7 again: {why}"
    assert "requeue" not in asked


def test_grid_engine_is_asked_by_the_exit_code(launch):
    exit_code, last, _ = leave_in(launch, {"JOB_ID": "5", "RESTARTED": "0"})
    assert exit_code == 99
    assert last == "tarantella: exit code 99 asks Grid Engine to run job 5 again"


def test_a_job_that_was_done_is_not_run_again(launch, slurm):
    job = launch(["-n", "1", "--requeue"], "", env=slurm)
    assert job.end()[0] == 0
    assert "requeue" not in (job.folder / "asked").read_text()


def test_what_cannot_be_run_again_is_refused_at_the_start(launch, slurm):
    for variables, why in [({}, "this is none"), (slurm | {"MAY": "0"}, "sbatch --requeue")]:
        exit_code, _, err = launch(["-n", "1", "--requeue"], "", env=variables).end()
        assert exit_code == 2
        assert why in err
