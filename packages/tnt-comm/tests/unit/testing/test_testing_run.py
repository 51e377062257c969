"""The multi-process helper tells the truth about functions that fail in every way."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tnt_comm.testing import Host, Preloaded, RanksFailed, observe_ranks, run_ranks

OUTCOMES_S = 100.0
START_AND_HANG_S = 4.0
"""Ranks that hang on purpose must have begun to, also on a slow machine."""


def rank_of_environment():
    return int(os.environ["TNT_RANK"])


def rank_and_arguments(*arguments):
    return rank_of_environment(), arguments


def variables():
    return {name: value for name, value in os.environ.items() if name.startswith("TNT_")}


def raise_on_rank_1():
    print("before the failure")
    if rank_of_environment() == 1:
        raise LookupError("rank 1 has no luck")
    return "fine"


def raise_on_rank_0_and_on_rank_1_once_rank_0_is_gone(pid_file):
    if rank_of_environment() == 1:
        while not pid_file.exists():
            time.sleep(0.01)
        end_of_rank_0 = os.pidfd_open(int(pid_file.read_text()))
        select.select([end_of_rank_0], [], [])
        raise ConnectionError("lost rank 0")
    being_written = pid_file.with_suffix(".new")
    being_written.write_text(str(os.getpid()))
    being_written.rename(pid_file)
    raise LookupError("the cause")


def raise_on_rank_0_hang_on_rank_1():
    if rank_of_environment() == 1:
        time.sleep(1000)
    raise LookupError("the cause")


def hang_in_a_second_thread_too():
    thread = threading.Thread(target=wait_for_ever_in_thread, daemon=True)
    thread.start()
    time.sleep(1000)


def wait_for_ever_in_thread():
    threading.Event().wait()


def hang_without_the_interpreter():
    mutex = ctypes.create_string_buffer(64)  # zeros are an initialised mutex
    for _ in range(2):  # the second one waits for ever and keeps the lock of the interpreter
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def stop_this_rank():
    os.kill(os.getpid(), signal.SIGSTOP)


def call_that_of_this_rank(functions):
    return functions[rank_of_environment()]()


def kill_rank_1():
    print("last words", flush=True)
    if rank_of_environment() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def leave_with(exit_code):
    os._exit(exit_code)


def call_sys_exit(exit_code):
    sys.exit(exit_code)


def unpicklable_result():
    return threading.Lock()


def large_result(num_bytes):
    return bytes([rank_of_environment()]) * num_bytes


def write_much(num_lines):
    for line in range(num_lines):
        print(f"line {line} " + "x" * 100)


def fail_while_leaving():
    import atexit

    atexit.register(os._exit, 5)
    return "value"


def pid():
    return os.getpid()


def imported_and_environment():
    import json  # nothing that a rank imports by itself

    return "xml.dom.minidom" in sys.modules, dict(os.environ), json.__name__


def parent_and_group():
    return os.getppid(), os.getpgid(0) == os.getpid()


def random_numbers():
    import random

    import numpy as np

    return random.random(), float(np.random.random())


def is_alive(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_in_rank_order():
    assert run_ranks(rank_of_environment, 3) == [0, 1, 2]


def test_arguments_reach_every_rank():
    assert run_ranks(rank_and_arguments, 2, "a b", [1]) == [(r, ("a b", [1])) for r in range(2)]


def test_every_rank_finds_the_variables_of_one_job():
    found = run_ranks(variables, 2, env={"TNT_TIMEOUT_S": "7"})
    assert [v["TNT_RANK"] for v in found] == ["0", "1"]
    assert [v["TNT_LOCAL_RANK"] for v in found] == ["0", "1"]
    assert {(v["TNT_SIZE"], v["TNT_LOCAL_SIZE"], v["TNT_TIMEOUT_S"]) for v in found} == {
        ("2", "2", "7")
    }
    assert len({v["TNT_JOB_ID"] for v in found}) == 1
    assert found[0]["TNT_JOB_ID"].isalnum()
    assert 8 <= len(found[0]["TNT_JOB_ID"]) <= 32


def test_two_jobs_have_different_ids():
    ids = {run_ranks(variables, 1)[0]["TNT_JOB_ID"] for _ in range(2)}
    assert len(ids) == 2


def test_a_result_larger_than_any_pipe_arrives():
    assert run_ranks(large_result, 2, 5_000_000) == [bytes([r]) * 5_000_000 for r in range(2)]


def test_much_output_does_not_block_a_rank():
    report = observe_ranks(write_much, 1, 20_000, timeout_s=OUTCOMES_S)[0]
    assert report.outcome == "returned"
    assert report.output.splitlines()[-1].startswith("line 19999 ")


def test_an_exception_is_shown_with_its_traceback_and_output():
    with pytest.raises(RanksFailed) as caught:
        run_ranks(raise_on_rank_1, 2)
    text = str(caught.value)
    assert "1 of 2 ranks failed in raise_on_rank_1" in text
    assert "raised LookupError: rank 1 has no luck" in text
    assert ", in raise_on_rank_1" in text
    assert "before the failure" in text
    assert [r.outcome for r in caught.value.reports] == ["returned", "raised"]
    assert caught.value.reports[1].exit_code == 1


def test_an_error_of_another_rank_within_the_grace_is_kept_and_shown_second(tmp_path):
    with pytest.raises(RanksFailed) as caught:
        run_ranks(
            raise_on_rank_0_and_on_rank_1_once_rank_0_is_gone, 2, tmp_path / "pid", grace_s=60
        )
    text = str(caught.value)
    assert [r.outcome for r in caught.value.reports] == ["raised", "raised"]
    assert text.index("LookupError: the cause") < text.index("ConnectionError: lost rank 0")


def test_a_failure_ends_the_ranks_that_go_on():
    reports = observe_ranks(raise_on_rank_0_hang_on_rank_1, 2, grace_s=2, timeout_s=1000)
    assert [r.outcome for r in reports] == ["raised", "ended"]
    assert "raise_on_rank_0_hang_on_rank_1" in reports[1].stack_dump
    assert not is_alive(reports[1].pid)


@pytest.fixture(scope="module")
def hanging():
    """Reports of ranks of one job, each of which hangs in another way, and of one that is done."""
    ways = [hang_in_a_second_thread_too, hang_without_the_interpreter, stop_this_rank, pid]
    return observe_ranks(call_that_of_this_rank, 4, ways, timeout_s=START_AND_HANG_S)


def test_a_hanging_rank_shows_the_stacks_of_all_its_threads(hanging):
    report = hanging[0]
    assert report.outcome == "timed_out"
    assert "hang_in_a_second_thread_too" in report.stack_dump
    assert "wait_for_ever_in_thread" in report.stack_dump
    assert report.exit_code == -signal.SIGKILL
    assert not is_alive(report.pid)


def test_a_rank_that_hangs_inside_a_library_shows_its_stack(hanging):
    assert hanging[1].outcome == "timed_out"
    assert "hang_without_the_interpreter" in hanging[1].stack_dump


def test_a_stopped_rank_is_named_and_ended(hanging):
    assert [report.outcome for report in hanging[2:]] == ["timed_out", "returned"]
    assert "SIGSTOP" in hanging[2].stack_dump
    assert not is_alive(hanging[2].pid)


def test_a_killed_rank_is_told_by_its_signal():
    reports = observe_ranks(kill_rank_1, 2)
    assert [r.outcome for r in reports] == ["returned", "died"]
    assert reports[1].exit_code == -signal.SIGKILL
    assert "killed by SIGKILL" in reports[1].headline()
    assert reports[1].output == "last words\n"


@pytest.mark.parametrize("exit_code", [0, 3])
@pytest.mark.parametrize("function", [leave_with, call_sys_exit])
def test_a_rank_that_leaves_without_returning_has_died(function, exit_code):
    report = observe_ranks(function, 1, exit_code)[0]
    assert report.outcome == "died"
    assert report.exit_code == exit_code
    assert f"exit code {exit_code}" in report.headline()


def test_a_rank_that_fails_after_returning_has_died():
    report = observe_ranks(fail_while_leaving, 1)[0]
    assert (report.outcome, report.exit_code) == ("died", 5)


def test_a_result_that_cannot_be_pickled_says_so():
    report = observe_ranks(unpicklable_result, 1)[0]
    assert report.outcome == "raised"
    assert "the result, of type lock, cannot be pickled" in report.error


def test_a_function_that_the_ranks_cannot_import_is_refused():
    with pytest.raises(ValueError, match="top level of an importable module"):
        run_ranks(lambda: None, 1)


def test_arguments_that_cannot_be_sent_are_refused():
    with pytest.raises(ValueError, match="cannot be sent"):
        run_ranks(rank_and_arguments, 1, threading.Lock())


def test_no_ranks_are_refused():
    with pytest.raises(ValueError, match="Received: 0"):
        run_ranks(pid, 0)


def test_no_rank_survives_the_process_that_started_it(tmp_path):
    (tmp_path / "sleeper.py").write_text(
        textwrap.dedent(
            """
            import os, pathlib, time
            def sleep(folder):
                (pathlib.Path(folder) / os.environ["TNT_RANK"]).write_text(str(os.getpid()))
                time.sleep(1000)
            """
        )
    )
    program = (
        "import sleeper, tnt_comm.testing as t, sys; t.run_ranks(sleeper.sleep, 2, sys.argv[1])"
    )
    import tnt_comm.testing

    sources = Path(tnt_comm.testing.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{sources}:{tmp_path}"}
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment)
    try:
        wait_until(lambda: all(pid_in(tmp_path / str(rank)) for rank in range(2)))
        pids = [pid_in(tmp_path / str(rank)) for rank in range(2)]
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not any(is_alive(process_id) for process_id in pids))


def pid_in(path):
    return int(path.read_text() or 0) if path.exists() else 0


def wait_until(condition):
    end = time.monotonic() + OUTCOMES_S
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def preloaded():
    with Preloaded(["xml.dom.minidom", "numpy"], env={"TNT_OF_IMPORTS": "1"}) as process:
        yield process


def test_forks_find_modules_imported_and_exactly_their_environment(preloaded):
    fresh = run_ranks(imported_and_environment, 2, env={"TNT_TIMEOUT_S": "7"})
    forked = run_ranks(imported_and_environment, 2, env={"TNT_TIMEOUT_S": "7"}, preloaded=preloaded)
    assert [imported for imported, *_ in fresh] == [False, False]
    assert [imported for imported, *_ in forked] == [True, True]
    for (_, expected, _), (_, environment, _) in zip(fresh, forked, strict=True):
        drawn = ("TNT_JOB_ID", "TNT_JOB_SECRET", "TNT_RENDEZVOUS")  # anew for each job
        assert environment == expected | {name: environment[name] for name in drawn}


def test_forks_of_all_runs_have_one_parent_and_groups_of_their_own(preloaded):
    runs = [run_ranks(parent_and_group, 2, preloaded=preloaded) for _ in range(2)]
    parents, leads = zip(*(result for run in runs for result in run), strict=True)
    assert len({*parents}) == 1
    assert parents[0] != os.getpid()
    assert all(leads)


def test_forks_draw_different_random_numbers(preloaded):
    (first, first_of_numpy), (second, second_of_numpy) = run_ranks(
        random_numbers, 2, preloaded=preloaded
    )
    assert first != second
    assert first_of_numpy != second_of_numpy


def test_a_fork_that_is_killed_is_reported_as_a_fresh_rank_is(preloaded):
    reports = observe_ranks(kill_rank_1, 2, preloaded=preloaded)
    assert [(report.outcome, report.exit_code) for report in reports] == [
        ("returned", 0),
        ("died", -signal.SIGKILL),
    ]
    assert "last words" in reports[1].output


@pytest.mark.parametrize("function", [leave_with, call_sys_exit])
def test_exit_codes_of_forks_are_their_own(function, preloaded):
    report = observe_ranks(function, 1, 3, preloaded=preloaded)[0]
    assert (report.outcome, report.exit_code) == ("died", 3)


def test_errors_and_leaving_of_forks_are_told_with_their_text(preloaded):
    with pytest.raises(RanksFailed, match="rank 1 has no luck"):
        run_ranks(raise_on_rank_1, 2, preloaded=preloaded)
    assert observe_ranks(fail_while_leaving, 1, preloaded=preloaded)[0].exit_code == 5


def test_a_fork_that_hangs_is_ended_and_shows_its_stacks(preloaded):
    report = observe_ranks(
        hang_in_a_second_thread_too, 1, timeout_s=START_AND_HANG_S, preloaded=preloaded
    )[0]
    assert report.outcome == "timed_out"
    assert "wait_for_ever_in_thread" in report.stack_dump
    assert not is_alive(report.pid)


def test_forks_end_with_the_process_that_asked_for_them():
    process = Preloaded([])
    with process:
        [(parent, _)] = run_ranks(parent_and_group, 1, preloaded=process)
        assert is_alive(parent)
    assert not is_alive(parent)


def test_modules_that_cannot_be_imported_are_an_error_at_once():
    with (
        Preloaded(["no_such_module"]) as process,
        pytest.raises(RuntimeError, match="imports no_such_module"),
    ):
        run_ranks(pid, 1, preloaded=process)


def test_forks_have_no_other_hosts(preloaded):
    with pytest.raises(ValueError, match="either `hosts` or `preloaded`"):
        run_ranks(pid, 1, hosts=[Host(1)], preloaded=preloaded)
