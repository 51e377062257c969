"""A job is started again after a failure, but not after the same one."""

import re

from launched import ENDED_WITHIN_S

RESTARTS = "\nrestarts = int(os.environ['TNT_RESTART_COUNT'])\n"
JOBS = "\nopen(f'job-{os.environ[\"TNT_JOB_ID\"]}', 'w').close()\n"
KILLED_TWICE = "\nif rank == 1 and restarts < 2: os.kill(os.getpid(), signal.SIGKILL)\n"
FAILING = "\nif rank == 1: raise ValueError('no such folder')\ntime.sleep(1000)\n"


def test_a_job_of_another_name_is_started_after_each_failure(launch):
    script = RESTARTS + JOBS + KILLED_TWICE + "print('done', restarts)"
    job = launch(["-n", "2", "--max-restarts", "2"], script)
    exit_code, out, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 0
    assert out.splitlines()[-1] == "done 2"
    assert err.count("failed first: killed by SIGKILL") == 2
    assert err.splitlines()[-1] == "tarantella: restart 2 of 2: all ranks are started again"
    assert len(list(job.folder.glob("job-*"))) == 3


def test_the_last_restart_is_the_last(launch):
    job = launch(["-n", "2", "--max-restarts", "1"], RESTARTS + KILLED_TWICE + "time.sleep(1000)")
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 137
    assert err.splitlines()[-1] == (
        "tarantella: not started again: this was restart 1, the last (--max-restarts)"
    )


def test_the_same_failure_at_the_same_step_twice_ends_the_job(launch):
    job = launch(["-n", "2", "--max-restarts", "5"], FAILING)
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 1
    assert err.count("Traceback (most recent call last)") == 2
    assert re.findall("restart . of 5", err) == ["restart 1 of 5"]
    assert err.splitlines()[-2:] == [
        "ValueError: no such folder",
        "tarantella: not started again: the same failure at the same step as before the restart",
    ]


def test_files_of_output_have_that_of_all_starts(launch):
    script = RESTARTS + "print('start', restarts)" + KILLED_TWICE
    job = launch(["-n", "2", "--max-restarts", "2", "--output-dir", "logs"], script)
    assert job.end(ENDED_WITHIN_S)[0] == 0
    text = (job.folder / "logs" / "rank-1.stdout.log").read_text()
    assert text == "start 0\nstart 1\nstart 2\n"
