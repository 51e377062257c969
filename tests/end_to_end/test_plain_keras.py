"""What plain Keras and TensorFlow do in a job of several ranks is told of, once, or hidden."""

import os
import re
import runpy
import signal
import sys

import keras  # noqa: F401  so that the one rank is a fork of a process that has imported TensorFlow
import pytest
from rank_pools import ENVIRONMENT
from run_command import ROOT, run_command

from tnt_comm.testing import observe_ranks

SCRIPT = "tests/end_to_end/scripts/plain_keras.py"
WARNING = "a plain Keras model is fitted in a job of 2 ranks"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of two ranks of which one is late and is killed at the end, and its two folders."""
    files, temporary = (tmp_path_factory.mktemp(name) for name in ("files", "temporary"))
    variables = f"env TMPDIR={temporary} TF_CPP_MIN_LOG_LEVEL=2"
    job = f"tarantella -n 2 --no-gpu --output-on-all-devices -- {SCRIPT} {files} late die"
    finished = run_command(f"{variables} {job}")
    assert "rank 1" in finished.messages.splitlines()[-1], finished
    return finished, temporary


def test_the_first_fit_of_a_plain_model_is_told_with_its_line_and_the_remedy(job):
    messages = job[0].messages
    assert messages.count(WARNING) == 1
    assert messages.index("0: distributed") < messages.index(WARNING)
    [line] = [line for line in messages.splitlines() if WARNING in line]
    source = (ROOT / SCRIPT).read_text().splitlines()
    [fit] = [number for number, text in enumerate(source, 1) if "model.fit(" in text]
    assert line.startswith(f"[rank 0] WARNING tnt_keras: plain_keras.py:{fit}: ")
    assert "`model = tnt.Model(model)`" in line


def test_a_rank_that_does_not_see_a_file_is_told_who_gives_it_the_model(job):
    lines = [line for line in job[0].output.splitlines() if "File not found" in line]
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("[1] 1: ")
        assert "Rank 1 cannot see this file. If rank 0 can, call `tnt.models.load_model`" in line


def test_a_rank_that_imports_late_is_no_stall(job):
    assert "has waited" not in job[0].messages


def test_ranks_without_gpu_do_not_show_that_cuda_finds_none(job):
    assert "cuInit" not in job[0].messages


def test_a_killed_rank_ends_the_job_and_is_named(job):
    assert job[0].status == 128 + signal.SIGKILL
    first = re.compile(r"tarantella: rank 1 on \S+ \(pid \d+\) failed first.*: killed by SIGKILL")
    assert any(map(first.match, job[0].messages.splitlines()))


def test_a_killed_rank_leaves_no_generated_code_behind(job):
    assert [name for name in os.listdir(job[1]) if "autograph" in name] == []


def run_script(folder):
    sys.argv = [SCRIPT, folder]
    runpy.run_path(str(ROOT / SCRIPT))


def test_one_rank_is_plain_keras(tmp_path, preloaded):
    [report] = observe_ranks(run_script, 1, str(tmp_path), env=ENVIRONMENT, preloaded=preloaded)
    assert report.outcome == "returned", report.full_text()
    assert WARNING.partition(" in ")[0] not in report.output
