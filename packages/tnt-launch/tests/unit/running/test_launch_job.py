"""Which signals the ranks of a job get, in which order, and why."""

import selectors
import signal
import time
from dataclasses import replace

import pytest

from tnt_launch.output.router import OutputRouter
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan
from tnt_launch.running.agent import ThisHost
from tnt_launch.running.board import Entry, Failure
from tnt_launch.running.ending import GRACE_S, LEAVING_S, LEFT, first_failure, time_of_end
from tnt_launch.running.execute import JobEnd
from tnt_launch.running.job import TERMINATE_S, Job
from tnt_launch.running.signals import SignalInbox

PLAN_GRACE_S = 5.0


class FakeAgent:
    """Ranks that run until told otherwise, and note every signal but SIGCONT."""

    def __init__(self, size):
        self.is_stopped = dict.fromkeys(range(size), False)
        self.signals = []
        self.noted = []
        self.told = {}

    def failed(self):
        return {rank: Entry(failure=failure) for rank, failure in self.told.items()}

    def reap(self):
        pass

    def send_signal(self, number):
        self.signals += [number] if number != signal.SIGCONT else []

    def ask(self, number):
        self.signals.append(number)

    def note_end(self, rank, exit_code):
        self.noted.append((rank, exit_code))

    def running(self):
        return dict(self.is_stopped)

    def pids(self):
        return {rank: 1000 + rank for rank in range(3)}


@pytest.fixture
def agent():
    return FakeAgent(3)


@pytest.fixture
def job(agent):
    ranks = tuple(RankPlan(rank, "alpha", ("a",), {}) for rank in range(3))
    plan = LaunchPlan("job", (HostPlan("alpha", "/", ranks),), 0, False, grace_s=PLAN_GRACE_S)
    with selectors.PollSelector() as selector, SignalInbox() as inbox:
        job = Job(plan, OutputRouter(False), ThisHost(selector), inbox)
        job._agents = (agent,)
        yield job


STEP_S = 0.01
NOTHING = Entry()


def fail(job, agent, rank, exit_code=1, told=NOTHING):
    del agent.is_stopped[rank]
    job.on_exit(rank, exit_code, told)


def job_end(job):
    return JobEnd(tuple(job.ends), job.interrupted_by)


def signals_until(job, agent, seconds):
    """Signals up to some time from now, with the looks at the survivors on the way."""
    now = time.monotonic()
    for step in range(int(min(seconds, 60) / STEP_S) + 1):
        job.send_due_signals(now + step * STEP_S)
    job.send_due_signals(now + seconds)
    return agent.signals


def test_the_end_of_a_rank_that_did_well_changes_nothing(job, agent):
    fail(job, agent, 1, exit_code=0)
    assert signals_until(job, agent, 1e6) == []
    assert first_failure(job.ends) is None


def test_after_a_failure_the_others_have_a_grace_then_sigterm_then_sigkill(job, agent):
    fail(job, agent, 1)
    assert signals_until(job, agent, 0) == []
    assert signals_until(job, agent, GRACE_S / 2) == []
    assert signals_until(job, agent, GRACE_S + STEP_S) == [signal.SIGTERM]
    end = GRACE_S + TERMINATE_S + STEP_S
    assert signals_until(job, agent, end) == [signal.SIGTERM, signal.SIGKILL]


def test_a_second_failure_within_the_grace_changes_no_time(job, agent):
    fail(job, agent, 1)
    first = job.ends[0].time_s
    fail(job, agent, 0)
    assert time_of_end(job.ends, {2: None}) == first + GRACE_S
    assert first_failure(job.ends).rank == 1


def test_a_rank_that_ends_after_a_signal_is_not_to_blame_and_may_have_been_stopped(job, agent):
    fail(job, agent, 1)
    agent.is_stopped[2] = True
    signals_until(job, agent, 1)
    fail(job, agent, 2, -signal.SIGKILL)
    assert job.ends[-1].was_ended
    assert job.ends[-1].was_stopped
    assert first_failure(job.ends).rank == 1


OWN = Failure("RuntimeError", "no more disk")
LOST = Failure("tnt_comm.PeerLostError", "rank 0: lost rank 1", cause_rank=1)


def told(failure):
    return Entry(failure=replace(failure, time_s=time.monotonic()))


@pytest.mark.parametrize("of_cause", [OWN, None])
def test_the_others_wait_for_the_end_of_a_rank_that_is_the_cause(job, agent, of_cause):
    if of_cause is not None:
        agent.told[1] = told(of_cause).failure
    fail(job, agent, 0, told=told(LOST))
    assert signals_until(job, agent, LEAVING_S / 2) == []
    fail(job, agent, 1, exit_code=3)
    assert signals_until(job, agent, LEAVING_S / 2 + 1) == [signal.SIGTERM]
    assert first_failure(job.ends).rank == 1
    assert first_failure(job.ends).exit_code == 3


def test_a_rank_that_is_the_cause_and_does_not_end_is_ended(job, agent):
    fail(job, agent, 0, told=told(LOST))
    assert signals_until(job, agent, LEAVING_S - 0.2) == []
    assert signals_until(job, agent, LEAVING_S) == [signal.SIGTERM]
    assert signals_until(job, agent, LEAVING_S + TERMINATE_S) == [signal.SIGTERM, signal.SIGKILL]


def test_a_rank_with_an_earlier_error_may_end_by_itself(job, agent):
    agent.told[1] = told(OWN).failure
    fail(job, agent, 0, told=told(OWN))
    assert signals_until(job, agent, LEAVING_S - 0.2) == []
    assert signals_until(job, agent, LEAVING_S) == [signal.SIGTERM]


def test_nobody_waits_for_a_rank_whose_error_came_later(job, agent):
    fail(job, agent, 0, told=told(OWN))
    agent.told[1] = told(OWN).failure
    assert signals_until(job, agent, 1) == [signal.SIGTERM]


def test_an_error_after_the_signal_that_ends_a_rank_is_none_of_its_own(job, agent):
    job.interrupt(signal.SIGINT)
    signals_until(job, agent, 0)
    fail(job, agent, 1, -signal.SIGINT, told(Failure("KeyboardInterrupt")))
    assert first_failure(job.ends) is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGINT, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]),
        (signal.SIGHUP, [signal.SIGTERM, signal.SIGKILL]),
    ],
)
def test_a_signal_is_passed_on_at_once_and_followed_by_stronger_ones(job, agent, number, expected):
    job.interrupt(number)
    assert signals_until(job, agent, 0) == expected[:1]
    assert signals_until(job, agent, 2 * TERMINATE_S) == expected
    assert job.interrupted_by == number


def test_all_hosts_know_of_a_rank_that_is_done_before_it_has_joined(job, agent):
    fail(job, agent, 1, exit_code=0)
    fail(job, agent, 2, exit_code=0, told=Entry(has_joined=True))
    assert agent.noted == [(1, 0)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_of_a_scheduler_is_passed_on_once_and_ranks_have_time_to_save(job, agent, number):
    for _ in range(3):
        job.interrupt(number)
    job.interrupt(signal.SIGTERM)
    assert signals_until(job, agent, PLAN_GRACE_S - 0.5) == [number]
    assert signals_until(job, agent, PLAN_GRACE_S + 0.5) == [number, signal.SIGKILL]
    assert job.interrupted_by == number


def test_ctrl_c_ends_the_time_to_save(job, agent):
    job.interrupt(signal.SIGTERM)
    job.interrupt(signal.SIGINT)
    assert signals_until(job, agent, 0) == [signal.SIGTERM, signal.SIGKILL]
    assert job.interrupted_by == signal.SIGINT


def test_ranks_that_leave_as_they_were_asked_have_not_failed(job, agent):
    job.interrupt(signal.SIGTERM)
    fail(job, agent, 0, exit_code=LEFT)
    fail(job, agent, 1, -signal.SIGTERM)
    fail(job, agent, 2, told=told(LOST))
    assert job_end(job).cause is None
    assert job_end(job).exit_code == LEFT
    assert job_end(job).is_to_go_on


def test_an_error_while_a_rank_saves_is_a_failure(job, agent):
    job.interrupt(signal.SIGTERM)
    fail(job, agent, 1, told=told(OWN))
    assert job_end(job).cause.rank == 1
    assert job_end(job).exit_code == 1
    assert not job_end(job).is_to_go_on


def test_a_rank_that_the_scheduler_ended_before_the_launcher_was_told_has_not_failed(job, agent):
    fail(job, agent, 1, -signal.SIGTERM)
    job.interrupt(signal.SIGTERM)
    assert signals_until(job, agent, PLAN_GRACE_S - 0.5) == [signal.SIGTERM]
    assert job_end(job).cause is None
    assert job_end(job).exit_code == 128 + signal.SIGTERM
    assert job_end(job).is_to_go_on


def test_ranks_that_leave_by_themselves_give_the_others_the_same_time(job, agent):
    fail(job, agent, 1, exit_code=LEFT)
    assert signals_until(job, agent, PLAN_GRACE_S - 0.5) == []
    assert signals_until(job, agent, PLAN_GRACE_S + 0.5) == [signal.SIGKILL]
    assert job_end(job).is_to_go_on


def test_a_job_that_is_done_in_the_time_to_save_went_well(job, agent):
    job.interrupt(signal.SIGUSR1)
    for rank in range(3):
        fail(job, agent, rank, exit_code=0)
    assert job_end(job).exit_code == 0
    assert not job_end(job).is_to_go_on


def test_a_second_signal_kills_at_once(job, agent):
    job.interrupt(signal.SIGINT)
    signals_until(job, agent, 0)
    job.interrupt(signal.SIGINT)
    assert signals_until(job, agent, 0) == [signal.SIGINT, signal.SIGKILL]


def test_the_whole_end_takes_less_than_five_seconds():
    assert GRACE_S + TERMINATE_S < 5
    assert 2 * TERMINATE_S < 5


class HostsThatAreLost:
    """Hosts of which only the passing of time tells that they are gone."""

    def __init__(self, selector):
        self.selector = selector
        self.job = None

    def tick(self, now):
        for rank in range(3):
            self.job.on_exit(rank, 255, NOTHING, "host beta is lost")

    def announce_stop(self, is_stopped):
        pass


def test_a_job_ends_with_the_last_host_that_falls_silent(agent):
    ranks = tuple(RankPlan(rank, "beta", ("a",), {}) for rank in range(3))
    plan = LaunchPlan("job", (HostPlan("beta", "/", ranks),), 0, False)
    agent.start = lambda: None
    with selectors.PollSelector() as selector, SignalInbox() as inbox:
        hosts = HostsThatAreLost(selector)
        hosts.job = Job(plan, OutputRouter(False), hosts, inbox)
        hosts.job.run([agent])
    assert [end.why_lost for end in hosts.job.ends] == ["host beta is lost"] * 3
