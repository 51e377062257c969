"""A pool keeps its processes while all is well and replaces them after a failure."""

import os
import signal
import sys

import pytest

from tnt_comm.testing import Host, Preloaded, RankPool, RanksFailed

remembered = []


def remember(value):
    print("remembering", value)
    remembered.append(value)
    return os.getpid(), list(remembered)


def job_id():
    return os.environ["TNT_JOB_ID"]


def raise_on_rank_1():
    if os.environ["TNT_RANK"] == "1":
        raise LookupError("no luck")


def kill_rank_1():
    if os.environ["TNT_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)


def hang_on_rank_1():
    if os.environ["TNT_RANK"] == "1":
        signal.pause()


def unpicklable_result():
    return sys._getframe()


def fail_while_leaving():
    import atexit

    atexit.register(os._exit, 5)


@pytest.fixture
def pool():
    with RankPool(2, timeout_s=100, grace_s=0.5) as pool:
        yield pool


def test_processes_and_what_they_hold_are_kept_between_runs(pool):
    first = pool.run(remember, "a")
    second = pool.run(remember, "b")
    assert [pid for pid, _ in first] == [pid for pid, _ in second]
    assert [values for _, values in second] == [["a", "b"]] * 2


def module_is_loaded():
    return "wave" in sys.modules


def test_forks_have_what_was_preloaded_and_are_kept_and_replaced_as_others_are():
    with Preloaded(["wave"]) as process, RankPool(2, preloaded=process) as pool:
        pids = [pid for pid, _ in pool.run(remember, "a")]
        assert [pid for pid, _ in pool.run(remember, "b")] == pids
        assert pool.run(module_is_loaded) == [True, True]
        with pytest.raises(RanksFailed):
            pool.run(raise_on_rank_1)
        assert [values for _, values in pool.run(remember, "c")] == [["c"]] * 2
        with pytest.raises(ValueError, match="either `hosts` or `preloaded`"):
            RankPool(2, hosts=[Host(2)], preloaded=process)


def test_the_output_of_a_report_is_that_of_its_own_run(pool):
    assert [r.output for r in pool.observe(remember, 1)] == ["remembering 1\n"] * 2
    assert [r.output for r in pool.observe(remember, 2)] == ["remembering 2\n"] * 2


@pytest.mark.parametrize("fail", [raise_on_rank_1, kill_rank_1, unpicklable_result])
def test_after_a_failure_the_next_run_starts_new_processes_as_a_new_job(pool, fail):
    pids_before = {pid for pid, _ in pool.run(remember, 0)}
    job_before = pool.run(job_id)[0]
    with pytest.raises(RanksFailed):
        pool.run(fail)
    after = pool.run(remember, 1)
    assert pids_before.isdisjoint(pid for pid, _ in after)
    assert [values for _, values in after] == [[1]] * 2
    assert pool.run(job_id)[0] != job_before


def test_a_hanging_run_is_reported_and_the_pool_can_be_used_again(pool):
    pool.run(job_id)  # its processes have started
    reports = pool.observe(hang_on_rank_1, timeout_s=1.5)
    assert [r.outcome for r in reports] == ["returned", "timed_out"]
    assert "hang_on_rank_1" in reports[1].stack_dump
    assert len(pool.run(job_id)) == 2


def test_failing_while_leaving_is_told_when_the_pool_closes():
    pool = RankPool(1)
    pool.run(fail_while_leaving)
    with pytest.raises(RanksFailed, match="exit code 5"):
        pool.close()
    pool.close()


def test_an_exception_in_the_block_ends_the_processes():
    pids = []
    with pytest.raises(KeyError):
        fill_and_raise(pids)
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def fill_and_raise(pids):
    with RankPool(2) as pool:
        pids += [pid for pid, _ in pool.run(remember, 0)]
        raise KeyError
