"""An exchange starts all, waits once, and finishes all; nobody can leave a part out."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tnt_keras
from tnt_keras.collectives.channel import Allgather, Allreduce, Channel
from tnt_keras.collectives.exchange import ExchangeSequence
from tnt_keras.collectives.ops import one

STARTS = {"TntStartReduce", "TntStartGather"}
FINISHES = {"TntFinishReduce", "TntFinishGather"}


def _sum(name: str, value: Any, scale: float = 1.0) -> Allreduce:
    return Allreduce(name, tf.convert_to_tensor(value), scale * one())


def _rows(name: str, rows: Any) -> Allgather:
    return Allgather(name, tf.convert_to_tensor(rows), one())


def _graph_of(function: Callable[[], Any]) -> Any:
    return tf.function(function, autograph=False).get_concrete_function().graph


def _operations(graph: Any, types: set[str]) -> list[Any]:
    return [operation for operation in graph.get_operations() if operation.type in types]


def _before(operation: Any) -> set[str]:
    """Names of all operations that an operation waits for."""
    seen: set[str] = set()
    to_visit = [operation]
    while to_visit:
        current = to_visit.pop()
        for source in [*(tensor.op for tensor in current.inputs), *current.control_inputs]:
            if source.name not in seen:
                seen.add(source.name)
                to_visit.append(source)
    return seen


@pytest.mark.parametrize("is_eager", [True, False])
def test_results_have_the_places_of_their_collectives(is_eager: bool) -> None:
    channel = Channel("test")

    def exchange() -> Any:
        collectives = {
            "sum": _sum("a", [1.0, 2.0], scale=3.0),
            "rows": (_rows("b", [[1, 2]]), None),
            "list": [_sum("c", np.int64(7)), _rows("b", [5.0])],
        }
        return ExchangeSequence().exchange(channel, collectives)

    results = exchange() if is_eager else tf.function(exchange, autograph=False)()
    assert results.keys() == {"sum", "rows", "list"}
    np.testing.assert_array_equal(results["sum"], [3.0, 6.0])
    np.testing.assert_array_equal(results["rows"][0], [[1, 2]])
    assert results["rows"][1] is None
    np.testing.assert_array_equal(results["list"][0], 7)
    np.testing.assert_array_equal(results["list"][1], [5.0])


def test_what_a_rank_weights_with_zero_counts_as_zero() -> None:
    summand = _sum("a", [np.nan, 1.0], scale=0.0)
    [total] = ExchangeSequence().exchange(Channel("test"), [summand])
    np.testing.assert_array_equal(total, [0.0, 0.0])


def test_every_finish_waits_for_all_starts_and_for_the_exchange_before() -> None:
    first, second = Channel("first"), Channel("second")

    def step() -> Any:
        exchanges = ExchangeSequence()
        a = exchanges.exchange(first, [_sum("a", [1.0]), _rows("b", [1.0]), _sum("c", [1.0])])
        return a, exchanges.exchange(second, [_sum("d", [1.0]), _rows("e", [1.0])])

    graph = _graph_of(step)
    starts, finishes = _operations(graph, STARTS), _operations(graph, FINISHES)
    assert len(starts) == len(finishes) == 5
    names = [operation.name for operation in starts]
    for finish in finishes[:3]:
        assert _before(finish) >= set(names[:3])
    for finish in finishes[3:]:
        assert _before(finish) >= {*names, *(each.name for each in finishes[:3])}


@pytest.mark.parametrize("used", [[0], [1], [2], []])
def test_all_is_finished_whichever_results_a_graph_uses(used: list[int]) -> None:
    first, second = Channel("first"), Channel("second")

    @tf.function(autograph=False)
    def step() -> Any:
        exchanges = ExchangeSequence()
        collectives = [_sum("a", [1.0]), _sum("b", [2.0]), _rows("c", [3.0])]
        results = exchanges.exchange(first, collectives)
        exchanges.exchange(second, [_rows("d", [4.0])])
        return [results[index] for index in used]

    for _ in range(3):  # what is started and not finished cannot be started again
        np.testing.assert_array_equal(step(), [[index + 1.0] for index in used])


def test_a_result_is_used_before_the_others_are_there() -> None:
    def step() -> Any:
        a, b = ExchangeSequence().exchange(Channel("test"), [_sum("a", [1.0]), _sum("b", [1.0])])
        return tf.identity(a, "used"), b

    graph = _graph_of(step)
    _, second = _operations(graph, FINISHES)
    assert second.name not in _before(graph.get_operation_by_name("used"))


def test_starts_wait_for_nothing_but_their_tensor() -> None:
    first, second = Channel("first"), Channel("second")

    def step() -> Any:
        exchanges = ExchangeSequence()
        return [exchanges.exchange(channel, [_sum("a", [1.0])]) for channel in (first, second)]

    graph = _graph_of(step)
    finishes = {operation.name for operation in _operations(graph, FINISHES)}
    for start in _operations(graph, STARTS):
        assert not _before(start) & finishes


def test_a_channel_that_is_used_again_starts_when_it_has_finished() -> None:
    channel = Channel("test")

    def step() -> Any:
        exchanges = ExchangeSequence()
        return [
            exchanges.exchange(channel, [_sum("a", [1.0], factor), _rows("b", [factor])])
            for factor in (1.0, 2.0, 3.0)
        ]

    graph = _graph_of(step)
    starts, finishes = _operations(graph, STARTS), _operations(graph, FINISHES)
    assert not _before(starts[0]) & {each.name for each in finishes}
    for start in starts[2:4]:
        assert _before(start) >= {each.name for each in finishes[:2]}
    for start in starts[4:]:
        assert _before(start) >= {each.name for each in finishes[:4]}
    results = tf.function(step, autograph=False)()
    for factor, (total, rows) in zip((1.0, 2.0, 3.0), results, strict=True):
        np.testing.assert_array_equal(total, [factor])
        np.testing.assert_array_equal(rows, [factor])


def test_next_exchange_waits_for_the_check_of_the_one_before() -> None:
    first, second = Channel("first"), Channel("second")

    def check(results: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.control_dependencies([tf.debugging.Assert(results[0] > 0, ["no"], name="check")]):
            return [tf.identity(results[0])]

    def step() -> Any:
        exchanges = ExchangeSequence()
        [a] = exchanges.exchange(first, [_sum("a", 1.0)], check)
        return a, exchanges.exchange(second, [_sum("b", 1.0)])

    graph = _graph_of(step)
    before_last = _before(_operations(graph, FINISHES)[-1])
    assert any(name.startswith("check") for name in before_last)


def test_operations_are_not_stateful() -> None:
    graph = _graph_of(
        lambda: ExchangeSequence().exchange(Channel("test"), [_sum("a", 1.0), _rows("b", [1.0])])
    )
    for operation in _operations(graph, STARTS | FINISHES):
        assert not operation.op_def.is_stateful


@pytest.mark.parametrize("nothing", [[], None, {"a": None, "b": [None]}], ids=str)
def test_exchange_of_nothing_adds_no_operation(nothing: Any) -> None:
    results: list[Any] = []
    graph = _graph_of(lambda: results.append(ExchangeSequence().exchange(Channel("test"), nothing)))
    assert results == [nothing]
    assert graph.get_operations() == []


@pytest.mark.parametrize("wrong", [1.0, "a", np.ones(2)], ids=repr)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"`Allreduce`s and `Allgather`s\. Received: "):
        ExchangeSequence().exchange(Channel("test"), [_sum("a", 1.0), wrong])


def test_sum_of_unknown_shape_is_refused_before_anything_starts() -> None:
    graphs: list[Any] = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def step(value: tf.Tensor) -> Any:
        graphs.append(value.graph)
        collectives = [_rows("a", [1.0]), Allreduce("kernel", value, one())]
        return ExchangeSequence().exchange(Channel("test"), collectives)

    with pytest.raises(ValueError, match=r"shape of 'kernel' must be known.*\(None, 3\)"):
        step.get_concrete_function()
    assert _operations(graphs[0], STARTS | FINISHES) == []


def test_branches_of_a_step_are_refused() -> None:
    def step() -> Any:
        exchanges = ExchangeSequence()
        return tf.cond(
            one() > 0.0,
            lambda: exchanges.exchange(Channel("test"), [_sum("a", 1.0)])[0],
            lambda: 0.0,
        )

    with pytest.raises(RuntimeError, match=r"inside of a `tf\.cond` or `tf\.while_loop`"):
        _graph_of(step)


def test_steps_of_one_graph_are_one_sequence_and_others_are_not() -> None:
    sequences: list[ExchangeSequence] = []

    def step() -> None:
        sequences.append(ExchangeSequence())
        assert sequences[-1].is_of_current_graph()

    _graph_of(step)
    assert not sequences[0].is_of_current_graph()
    assert not ExchangeSequence().is_of_current_graph()  # eager steps come one after the other


def test_equal_lists_share_their_reducers_and_gatherers() -> None:
    channel = Channel("test")
    [a, b], [c, d] = (channel.operations([_sum("a", [1.0]), _rows("b", [1.0])]) for _ in range(2))
    assert a._reducer is c._reducer
    assert b._gatherer is d._gatherer
    [other] = channel.operations([_sum("a", [1.0, 2.0])])
    assert other._reducer is not a._reducer


def test_rows_of_the_same_name_have_gatherers_of_their_own() -> None:
    rows = [_rows("same", [1.0]), _rows("same", [2.0])]
    first, second = ExchangeSequence().exchange(Channel("test"), rows)
    np.testing.assert_array_equal(first, [1.0])
    np.testing.assert_array_equal(second, [2.0])


def _calls_of(source: str) -> set[str]:
    calls = {
        getattr(node.func, "attr", getattr(node.func, "id", ""))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
    }
    return calls & {"start_reduce", "finish_reduce", "start_gather", "finish_gather"}


def test_nobody_else_calls_the_operations() -> None:
    folder = Path(tnt_keras.__file__).parent
    callers = {
        str(path.relative_to(folder)): _calls_of(path.read_text()) for path in folder.rglob("*.py")
    }
    users = {name for name, calls in callers.items() if calls}
    assert users == {"collectives/channel.py", "collectives/exchange_parts.py"}
    assert {len(callers[name]) for name in users} == {4}
