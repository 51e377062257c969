"""Values that ranks exchange in a step: every kind and dtype, in groups, branches and loops."""

from __future__ import annotations

import functools
import math
import pathlib
from typing import Any

import pytest
import step_exchange_errors
import step_exchanges
from cases import cases
from rank_pools import ENVIRONMENT

from tnt_comm.testing import observe_ranks, read_trace, run_ranks

of_all_sizes = cases("size", [2], thorough=[3])


@pytest.fixture(scope="module")
def right(pool_of: Any) -> Any:
    """What a function finds right of every dtype, on each of some ranks; computed once."""
    return functools.cache(lambda function, size: pool_of(size).run(function))


@cases("size", [3], thorough=[2])
@pytest.mark.parametrize("dtype", [dtype.name for dtype in step_exchanges.all_dtypes()])
def test_rows_and_values_of_rank_0_have_every_dtype(dtype: str, size: int, right: Any) -> None:
    for of_rank in right(step_exchanges.gather_and_broadcast_every_dtype, size):
        assert len(of_rank[dtype]) == 6
        assert [name for name, is_right in of_rank[dtype].items() if not is_right] == []


@cases("size", [3], thorough=[2])
@pytest.mark.parametrize("dtype", step_exchanges.KINDS_OF_DTYPE)
def test_what_has_a_reduction_is_reduced(dtype: str, size: int, right: Any) -> None:
    for of_rank in right(step_exchanges.reduce_every_dtype, size):
        for kind in step_exchanges.KINDS_OF_DTYPE[dtype]:
            assert of_rank[f"{kind} {dtype}"], kind


def test_not_a_number_on_any_rank_is_not_lost(pool_of: Any) -> None:
    first, second = pool_of(2).run(step_exchanges.reduce_floats_that_are_not_finite)
    for of_rank in (first, second):
        for results in of_rank.values():
            assert math.isnan(results[1])
        assert [of_rank[kind][2] for kind in ("max", "min", "sum")] == [math.inf, 1.0, math.inf]
        assert [of_rank[kind][3] for kind in ("max", "min", "sum")] == [1.0, -math.inf, -math.inf]


@of_all_sizes
def test_random_programs_have_the_right_values(size: int, pool_of: Any) -> None:
    seeds = list(range(12))
    assert pool_of(size).run(step_exchanges.run_random_programs, seeds) == [[]] * size


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
def test_many_random_programs_have_the_right_values(size: int, pool_of: Any) -> None:
    for begin in range(100, 400, 30):
        seeds = list(range(begin, begin + 30))
        assert pool_of(size).run(step_exchanges.run_random_programs, seeds) == [[]] * size


def test_one_thread_of_tensorflow_is_enough(preloaded: Any) -> None:
    environment = {**ENVIRONMENT, "TF_NUM_INTEROP_THREADS": "1", "TNT_TIMEOUT_S": "60"}
    wrong = run_ranks(
        step_exchanges.run_random_programs,
        2,
        list(range(20, 32)),
        env=environment,
        timeout_s=150,
        preloaded=preloaded,
    )
    assert wrong == [[], []]


@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_iterations_of_a_loop_do_not_overtake_each_other(
    parallel_iterations: int, pool_of: Any
) -> None:
    for rows in pool_of(2).run(step_exchanges.exchange_in_loops, parallel_iterations):
        assert rows == [[i, i] for i in range(5)]


def test_conditions_and_branches_may_exchange(pool_of: Any) -> None:
    # 1 + 2 is doubled until it is at least 100: six times. The total is 3 * 2**6.
    for results in pool_of(2).run(step_exchanges.exchange_in_conditions_of_loops):
        assert results == [6.0, 192.0, 64.0, 192.0]


def test_what_some_rank_does_not_read_is_exchanged_all_the_same(pool_of: Any) -> None:
    for unread, read in pool_of(2).run(step_exchanges.count_operations_of_unread_values, 4):
        assert unread == read == 4 * (3 + 2 + 4 + 1)


@of_all_sizes
def test_graphs_of_a_step_share_reducers_whatever_the_order_and_the_names(
    size: int, pool_of: Any
) -> None:
    for result in pool_of(size).run(step_exchanges.graphs_of_a_step):
        assert result == {"right": True, "reducers": 2, "sums": 15}


def test_reducers_end_with_the_channels_of_their_step(pool_of: Any) -> None:
    assert pool_of(2).run(step_exchanges.objects_end_with_their_channels) == [[2, 0]] * 2


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        (
            "another shape",
            "sum of float32 (2) for 'dense_1/MatMul' (model.py:4) in exchange 2 (end)",
            "sum of float32 (3) for 'dense_1/MatMul' (model.py:4) in exchange 2 (end)",
        ),
        (
            "another kind",
            "sum of float32 (2) for 'dense_1/MatMul' (model.py:4) in exchange 2 (control flow)",
            "max of float32 (2) for 'dense_1/MatMul' (model.py:4) in exchange 2 (control flow)",
        ),
        (
            "one more",
            "nothing more",
            "gather of float32 for 'dense_1/MatMul' (model.py:4) in exchange 2 (control flow)",
        ),
        (
            "another order",
            "sum of float32 (5, 1) for 'a' (model.py:4) in exchange 2 (end)",
            "sum of float32 (5) for 'b' (model.py:4) in exchange 2 (end)",
        ),
    ],
)
def test_ranks_that_ask_for_different_things_are_told_what(
    what: str, first: str, second: str, pool_of: Any
) -> None:
    for rank, text in enumerate(
        pool_of(2).run(step_exchange_errors.ask_for_different_things, what)
    ):
        assert (
            f"Rank {rank}: ranks do not exchange the same values in train_step 1. As "
            f"number 2, rank 0 has {first}, rank 1 has {second}."
        ) in text


def test_ranks_that_were_told_of_a_difference_can_go_on(pool_of: Any) -> None:
    assert pool_of(2).run(step_exchange_errors.go_on_after_a_difference) == [2.0, 2.0]


@pytest.mark.parametrize(
    ("how", "kind"),
    [("in a group", "gather"), ("alone", "gather"), ("alone, summed", "sum")],
)
def test_shapes_that_differ_when_the_step_runs_are_named(
    how: str, kind: str, preloaded: Any
) -> None:
    reports = observe_ranks(
        step_exchange_errors.bring_rows_of_other_shapes,
        2,
        how,
        env=ENVIRONMENT,
        timeout_s=100,
        preloaded=preloaded,
    )
    shapes = ["(3, 2)", "(3, 3)"] if kind == "sum" else ["(2)", "(3)"]
    for report in reports:
        for shape in shapes:
            assert f"'train_step 1, {kind} 1 of float32 {shape}' from " in report.value
        assert "embedding/Gather (simclr.py:12)" in report.value


@pytest.mark.parametrize("dtype", ["int32", "string"])
def test_rows_of_other_shapes_are_noticed_by_their_sizes(dtype: str, pool_of: Any) -> None:
    function = step_exchange_errors.gather_rows_of_other_shapes_without_labels
    for own, text in enumerate(pool_of(2).run(function, dtype)):
        assert f"on this rank it is ({2 + own}), on rank {1 - own} another one" in text


@pytest.mark.parametrize("where", ["sums", "rows", "loop"])
def test_a_rank_that_fails_in_a_step_ends_the_wait_of_the_others(
    where: str, preloaded: Any
) -> None:
    first, second = observe_ranks(
        step_exchange_errors.fail_before_an_exchange,
        2,
        where,
        env=ENVIRONMENT,
        timeout_s=100,
        grace_s=60,
        preloaded=preloaded,
    )
    assert "rank 1 has a bad sample" in second.traceback
    assert "UnavailableError" in first.traceback
    assert "PeerLostError" in first.traceback
    assert "rank 1" in first.traceback


@pytest.fixture(scope="module")
def late(preloaded: Any, tmp_path_factory: Any) -> tuple[str, Any]:
    """What rank 0 says when rank 1 is late, and the timeline."""
    path = tmp_path_factory.mktemp("timeline") / "trace.json"
    environment = {**ENVIRONMENT, "TNT_STALL_S": "0.5", "TNT_TIMELINE": str(path)}
    reports = observe_ranks(
        step_exchange_errors.come_late, 2, env=environment, timeout_s=100, preloaded=preloaded
    )
    assert [report.outcome for report in reports] == ["returned", "returned"]
    return reports[0].output, read_trace(pathlib.Path(path))


@pytest.mark.parametrize(
    "name",
    ["embedding/Gather (simclr.py:12)", "norm/Max (simclr.py:13)", "dense/kernel (model.py:5)"],
)
def test_reports_of_long_waits_name_what_is_waited_for(name: str, late: tuple[str, Any]) -> None:
    output, _ = late
    assert name in output


def test_the_timeline_shows_names_and_the_phase_of_updates(late: tuple[str, Any]) -> None:
    _, trace = late
    assert trace.find("embedding/Gather (simclr.py:12)", rank=0)
    assert trace.find("norm/Max (simclr.py:13)", rank=0)
    assert len(trace.find("backpropagation", rank=0)) == 1
