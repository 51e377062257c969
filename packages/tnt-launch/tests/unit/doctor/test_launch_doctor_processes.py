"""Processes on hosts tell facts, fail, or are ended at the deadline."""

import os
import sys

import pytest

from tnt_launch.doctor.facts import Fact, collect_facts
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan, make_job_id

TELL = 'print(\'{"doctor": "begin", "check": "thing"}\', flush=True)\n'


def outcome_of(program, limit_s=60.0, interpreter=sys.executable):
    """What a process tells, and why it has failed."""
    job_id = make_job_id()
    argv = (interpreter, "-c", program)
    host = HostPlan("here", os.getcwd(), (RankPlan(0, "here", argv, {"TNT_JOB_ID": job_id}),))
    plan = LaunchPlan(job_id, (host,), 0, False)
    facts, ends, waits = [], [], []
    collect_facts(
        plan,
        None,
        lambda rank, fact: facts.append(fact),
        lambda rank, why: ends.append(why),
        lambda: waits.append(None),
        limit_s,
    )
    assert waits or interpreter != sys.executable
    (why,) = ends
    return facts, why


def test_a_process_tells_facts():
    assert outcome_of(TELL) == ([Fact("begin", {"check": "thing"})], "")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import sys; sys.exit('one\\n\\ntwo')", "exit code 1: one two"),
    ],
)
def test_a_process_that_fails_is_told_with_its_last_lines(program, why):
    assert outcome_of(program) == ([], why)


def test_a_process_that_hangs_is_ended():
    facts, why = outcome_of(TELL + "import time; time.sleep(600)", limit_s=3.0)
    assert (len(facts), why) == (1, "it did not end within 3 s")


def test_a_process_that_cannot_be_started_is_told():
    _, why = outcome_of("", interpreter="/nowhere/python")
    assert "cannot be started on here" in why
