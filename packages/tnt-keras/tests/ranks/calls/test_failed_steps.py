"""An error in a step of some ranks ends the others' wait, and all know the cause."""

from pathlib import Path

import failed_steps
import pytest
from rank_pools import ENVIRONMENT

from tnt_comm.testing import observe_ranks, run_ranks
from tnt_keras.calls import current_call

pytestmark = pytest.mark.timeout(300)


def test_ranks_whose_step_has_failed_on_all_go_on(pool_of):
    first, second = pool_of(2).run(failed_steps.fail_on_all_and_go_on)
    assert first == second
    assert len(first) == 1


def test_a_rank_that_traces_for_long_is_no_stall(preloaded):
    settings = {"env": {**ENVIRONMENT, "TNT_STALL_S": "0.5"}, "timeout_s": 200}
    reports = observe_ranks(
        failed_steps.fit_where_the_last_rank_traces_slowly, 2, 1.5, **settings, preloaded=preloaded
    )
    assert reports[0].value == reports[1].value
    for report in reports:
        waits = [line for line in report.output.splitlines() if "has waited" in line]
        assert [line for line in waits if "to open the job" not in line] == []


def test_a_rank_whose_step_failed_alone_cannot_go_on_and_the_others_are_told(preloaded):
    settings = {"env": ENVIRONMENT, "timeout_s": 200, "preloaded": preloaded}
    told, failed = run_ranks(failed_steps.fail_on_the_last_and_go_on, 2, 2.0, **settings)
    assert "fit from failed_steps.py" in failed
    assert "has failed on this rank but not on all, so others wait for it" in failed
    assert "InvalidArgumentError: assertion failed: [a target is too large]" in failed
    assert "'fit: after an error' from failed_steps.py:" in told
    assert " (InvalidArgumentError), of group 'world'" in told


def test_an_error_of_python_code_ends_the_wait_of_other_ranks_at_once(preloaded):
    settings = {"env": ENVIRONMENT, "timeout_s": 200, "preloaded": preloaded}
    (failed, seconds), (told, _) = run_ranks(
        failed_steps.fail_in_python_code_and_go_on, 2, **settings
    )
    assert seconds < current_call.PATIENCE_S
    for text in (failed, told):
        assert "a target is too large for Python" in text
    assert "given up by rank 0" in told
    assert "fit from failed_steps.py" in failed


def test_a_rank_that_is_lost_after_an_error_of_all_is_told_as_lost(preloaded):
    function = failed_steps.go_on_after_an_error_of_all_without_the_master
    settings = {"env": ENVIRONMENT, "timeout_s": 200, "preloaded": preloaded}
    master, other = observe_ranks(function, 2, **settings, grace_s=60)
    assert "the master ends" in master.error
    assert "not on all" not in other.value
    assert "rank 0" in other.value
    assert "broadcast_object from failed_steps.py" in other.value


def test_the_first_error_is_shown_when_the_script_saves_in_the_end(tmp_path: Path, preloaded):
    settings = {"env": ENVIRONMENT, "timeout_s": 200, "preloaded": preloaded}
    path = str(tmp_path / "model.keras")
    reports = observe_ranks(
        failed_steps.fail_and_save_in_the_end, 2, 2.0, path, **settings, grace_s=60
    )
    assert [report.outcome for report in reports] == ["raised", "raised"]
    assert "(InvalidArgumentError)" in reports[0].error
    assert "save from failed_steps.py" not in reports[1].error
    assert "has failed on this rank but not on all" in reports[1].error
    assert "[a target is too large]" in reports[1].error
