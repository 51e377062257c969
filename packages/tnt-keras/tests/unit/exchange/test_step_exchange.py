"""What exchanges are in the graph of a step: groups in a row, and single values in between."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.exchange import exchange_plan, step_exchange
from tnt_keras.exchange.channels import Fusion
from tnt_keras.exchange.step_exchange import StepChannels, StepExchange
from tnt_keras.process.rank import logger

STARTS = {"TntStartReduce", "TntStartGather", "TntStartBroadcast"}
FINISHES = {"TntFinishReduce", "TntFinishGather", "TntFinishBroadcast"}
BLOCKING = {"TntAllreduce", "TntGather", "TntBroadcast"}


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    kind: str
    value: tf.Tensor
    name: str = "value"
    line: str = "train.py:1"
    is_update: bool = False


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> StepChannels:
    """Channels of a step that is traced as on several ranks, of which there is only this one."""
    for module in (step_exchange, exchange_plan):
        monkeypatch.setattr(module, "get_size", lambda: 2)
    return StepChannels("train_step")


def _graph_of(step: Callable[[], Any]) -> Any:
    return tf.function(step, autograph=False).get_concrete_function().graph


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


def _names(operations: list[Any]) -> set[str]:
    return {operation.name for operation in operations}


def _ask_for_all_kinds(exchange: StepExchange) -> None:
    exchange.ask(Request("sum", tf.ones([2])))
    exchange.ask(Request("gather", tf.ones([1, 2])))
    exchange.ask(Request("broadcast", tf.constant("a")))
    exchange.ask(Request("max", tf.ones([3])))


def test_results_come_in_the_order_in_which_they_were_asked_for(channels: StepChannels) -> None:
    @tf.function(autograph=False)
    def step() -> Any:
        exchange = channels.new_exchange()
        _ask_for_all_kinds(exchange)
        return exchange.flush(last=True)

    total, rows, text, greatest = step()
    np.testing.assert_array_equal(total, [1.0, 1.0])
    np.testing.assert_array_equal(rows, [[1.0, 1.0]])
    assert text == b"a"
    np.testing.assert_array_equal(greatest, [1.0, 1.0, 1.0])


def _two_groups(channels: StepChannels) -> Any:
    """Exchange values of all kinds, and then once more."""
    exchange = channels.new_exchange()
    _ask_for_all_kinds(exchange)
    inside = exchange.flush(last=False)
    _ask_for_all_kinds(exchange)
    return inside, exchange.flush(last=True)


def test_starts_wait_for_nothing_but_their_tensor(channels: StepChannels) -> None:
    graph = _graph_of(lambda: _two_groups(channels))
    waiting = _names(_operations(graph, FINISHES | BLOCKING))
    starts = _operations(graph, STARTS)
    assert len(starts) == 6
    for start in starts:
        assert not _before(start) & waiting
        assert not start.op_def.is_stateful
    for finish in _operations(graph, FINISHES):
        assert not finish.op_def.is_stateful


def test_a_group_waits_for_all_its_starts_and_for_the_group_before(channels: StepChannels) -> None:
    graph = _graph_of(lambda: _two_groups(channels))
    starts = _operations(graph, STARTS)
    waiting = _operations(graph, FINISHES | BLOCKING)
    assert len(waiting) == 8
    for each in waiting[:4]:
        assert _before(each) >= _names(starts[:3])
        assert not _before(each) & _names(starts[3:])
    for each in waiting[4:]:
        assert _before(each) >= _names(starts) | _names(waiting[:4])


def test_an_object_that_serves_again_starts_when_it_has_finished(channels: StepChannels) -> None:
    def exchange_twice(second_value: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        results = []
        for value in (tf.ones([2]), second_value):
            exchange.ask(Request("sum", value))
            exchange.ask(Request("gather", value))
            results.append(exchange.flush(last=False))
        exchange.flush(last=True)
        return results

    graph = _graph_of(lambda: exchange_twice(tf.ones([2]) * 2.0))
    starts, finishes = _operations(graph, STARTS), _operations(graph, FINISHES)
    for start in starts[2:]:
        assert _before(start) >= _names(finishes[:2])
    graph = _graph_of(lambda: exchange_twice(tf.ones([3]) * 2.0))  # another reducer
    starts, finishes = _operations(graph, STARTS), _operations(graph, FINISHES)
    second_sum = next(each for each in starts[2:] if each.type == "TntStartReduce")
    assert not _before(second_sum) & _names(finishes)


def test_equal_values_of_two_groups_are_not_merged(channels: StepChannels) -> None:
    @tf.function(autograph=False)
    def step(value: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        results = []
        for _ in range(3):
            exchange.ask(Request("sum", value))
            exchange.ask(Request("gather", value))
            results.append(exchange.flush(last=False))
        exchange.flush(last=True)
        return results

    for _ in range(3):
        for total, rows in step(tf.constant([1.0, 2.0])):
            np.testing.assert_array_equal(total, [1.0, 2.0])
            np.testing.assert_array_equal(rows, [1.0, 2.0])


@pytest.mark.parametrize("used", [[0], [1], [2], [3], []])
def test_all_is_finished_whichever_results_a_graph_uses(
    used: list[int], channels: StepChannels
) -> None:
    @tf.function(autograph=False)
    def step() -> Any:
        exchange = channels.new_exchange()
        _ask_for_all_kinds(exchange)
        results = exchange.flush(last=False)
        _ask_for_all_kinds(exchange)
        exchange.flush(last=True)
        return [results[index] for index in used]

    for _ in range(3):  # what is started and not finished cannot be started again
        assert len(step()) == len(used)


def test_a_result_is_used_before_the_others_are_there(channels: StepChannels) -> None:
    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", tf.ones([1])))
        exchange.ask(Request("sum", tf.ones([2])))
        a, b = exchange.flush(last=True)
        return tf.identity(a, "used"), b

    graph = _graph_of(step)
    finishes = {finish.outputs[1].shape[0]: finish for finish in _operations(graph, FINISHES)}
    assert finishes[2].name not in _before(graph.get_operation_by_name("used"))


def test_single_values_are_between_groups_one_after_the_other(channels: StepChannels) -> None:
    def step() -> Any:
        exchange = channels.new_exchange()
        _ask_for_all_kinds(exchange)
        inside = exchange.flush(last=False)
        singles = [exchange.blocking(Request(kind, tf.ones([2]))) for kind in ("gather", "sum")]
        _ask_for_all_kinds(exchange)
        return inside, singles, exchange.flush(last=True)

    graph = _graph_of(step)
    first, *singles, last = _operations(graph, BLOCKING)
    finishes = _operations(graph, FINISHES)
    assert [each.type for each in singles] == ["TntGather", "TntAllreduce"]
    assert _before(singles[0]) >= _names([*finishes[:3], first])
    assert singles[0].name in _before(singles[1])
    for each in [*finishes[3:], last]:
        assert _before(each) >= _names(singles)


def test_single_values_are_exchanged_whatever_becomes_of_them(channels: StepChannels) -> None:
    def step() -> Any:
        exchange = channels.new_exchange()
        for kind in ("sum", "gather", "broadcast"):
            exchange.blocking(Request(kind, tf.ones([2])))
        exchange.flush(last=True)

    for operation in _operations(_graph_of(step), BLOCKING):
        assert operation.op_def.is_stateful  # never dropped, merged or computed in advance


def test_what_runs_a_function_with_exchanges_is_one_of_them(channels: StepChannels) -> None:
    def step(count: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        before = exchange.blocking(Request("sum", tf.ones([2]), "before"))

        def body(i: tf.Tensor, total: tf.Tensor) -> Any:
            return i + 1, total + exchange.blocking(Request("sum", tf.ones([]), "in the loop"))

        _, total = exchange.ordered(lambda: tf.while_loop(lambda i, _: i < count, body, [0, 0.0]))
        after = exchange.blocking(Request("sum", tf.ones([2]), "after"))
        exchange.flush(last=True)
        return before, total, after

    function = tf.function(step, autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec([], tf.int32)).graph
    first, second = _operations(graph, BLOCKING)
    [loop] = _operations(graph, {"While"})
    assert first.name in _before(loop)
    assert loop.name in _before(second)
    assert function(tf.constant(3))[1] == 3.0


def test_exchanges_of_a_function_come_one_after_the_other(channels: StepChannels) -> None:
    graphs: list[Any] = []

    def step(is_wanted: tf.Tensor) -> Any:
        exchange = channels.new_exchange()

        def inner() -> tf.Tensor:
            return exchange.blocking(Request("sum", tf.ones([]), "inner"))

        def branch() -> tf.Tensor:
            graphs.append(tf.compat.v1.get_default_graph())
            first = exchange.blocking(Request("sum", tf.ones([]), "first"))
            [second] = exchange.ordered(lambda: [tf.cond(is_wanted, inner, lambda: 0.0)])
            return first + second + exchange.blocking(Request("sum", tf.ones([]), "third"))

        [result] = exchange.ordered(lambda: [tf.cond(is_wanted, branch, lambda: 0.0)])
        exchange.flush(last=True)
        return result

    function = tf.function(step, autograph=False)
    assert function(tf.constant(True)) == 3.0
    first, third = _operations(graphs[0], BLOCKING)
    [inner] = _operations(graphs[0], {"If"})
    assert first.name in _before(inner)
    assert inner.name in _before(third)


def test_a_function_with_exchanges_that_is_not_ordered_is_an_error(channels: StepChannels) -> None:
    def step(then: Callable[[StepExchange], Any]) -> Any:
        exchange = channels.new_exchange()
        tf.cond(
            tf.equal(tf.timestamp(), 0.0),
            lambda: exchange.blocking(Request("sum", tf.ones([]))),
            lambda: 0.0,
        )
        then(exchange)

    for then in (
        lambda exchange: exchange.flush(last=True),
        lambda exchange: exchange.blocking(Request("sum", tf.ones([]))),
    ):
        with pytest.raises(RuntimeError, match=r"by `StepExchange\.ordered`"):
            _graph_of(lambda: step(then))  # noqa: B023 (called here)


def test_a_group_in_a_branch_is_refused(channels: StepChannels) -> None:
    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", tf.ones([])))
        tf.cond(tf.equal(tf.timestamp(), 0.0), lambda: exchange.flush(last=False)[0], lambda: 0.0)

    with pytest.raises(RuntimeError, match="outside of branches and loops"):
        _graph_of(step)


def test_updates_are_fused_and_rounded_as_the_user_wants_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, channels: StepChannels
) -> None:
    monkeypatch.setattr(step_exchange, "gradient_fusion", lambda: Fusion(0, "bfloat16"))
    channels = StepChannels("train_step")
    value = 1.0 + 2.0**-12  # which bfloat16 has not

    @tf.function(autograph=False)
    def step(scale: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", scale * [value, value], is_update=True))
        exchange.ask(Request("sum", scale * [value]))
        inside = exchange.flush(last=False)
        exchange.ask(Request("sum", scale * [value, value], "kernel", is_update=True))
        exchange.ask(Request("sum", scale * [value], "loss"))
        exchange.ask(Request("sum", scale * [value], "bias", is_update=True))
        return [*inside, *exchange.flush(last=True)]

    *inside, kernel, loss, bias = step(tf.constant(1.0))
    for exact in (*inside, loss):
        assert np.all(exact == np.float32(value))
    for rounded in (kernel, bias):
        assert np.all(rounded == 1.0)


def test_graphs_of_one_step_share_what_they_exchange_by(channels: StepChannels) -> None:
    def graph_that_asks_for(names: list[str]) -> Any:
        def step() -> Any:
            exchange = channels.new_exchange()
            for name in names:
                exchange.ask(Request("sum", tf.ones([2]), name, is_update=True))
            return exchange.flush(last=True)

        return _graph_of(step)

    def places(graph: Any) -> list[tuple[int, int]]:
        starts = _operations(graph, STARTS)
        return [(each.get_attr("reducer"), each.get_attr("tensor_id")) for each in starts]

    first = places(graph_that_asks_for(["a", "b", "c"]))
    second = places(graph_that_asks_for(["c", "a", "b"]))
    assert second == [first[2], first[0], first[1]]
    assert len(set(first)) == 3


def test_values_that_are_combined_after_the_barrier_travel_together(channels: StepChannels) -> None:
    @tf.function(autograph=False)
    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("max", tf.constant([[1.0, 2.0]])))
        exchange.ask(Request("min", tf.constant(3.0)))
        exchange.ask(Request("max", tf.constant(4.0)))
        exchange.ask(Request("or", tf.constant([True, False])))
        exchange.ask(Request("max", tf.constant(5, tf.uint32)))
        return exchange.flush(last=True)

    results = step()
    for result, expected in zip(results, [[[1.0, 2.0]], 3.0, 4.0, [True, False], 5], strict=True):
        np.testing.assert_array_equal(result, expected)
    graph = step.get_concrete_function().graph
    assert len(_operations(graph, BLOCKING)) == 4


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("sum", tf.constant("a")), "no 'sum' over ranks for tensors of string"),
        (
            Request(
                "gather",
                tf.raw_ops.TensorListReserve(
                    element_shape=-1, num_elements=1, element_dtype=tf.float32
                ),
                "list",
            ),
            "'list' cannot leave its rank: it is a variant",
        ),
    ],
)
def test_what_cannot_be_exchanged_is_refused(
    request_: Request, message: str, channels: StepChannels
) -> None:
    exchange = channels.new_exchange()
    with pytest.raises(TypeError, match=message):
        exchange.ask(request_)
    with pytest.raises(TypeError, match=message):
        exchange.blocking(request_)


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_sizes_need_not_be_known(kind: str, channels: StepChannels) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2])], autograph=False)
    def step(value: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        for factor in (1.0, 2.0):
            exchange.ask(Request(kind, value * factor))
        exchange.ask(Request("sum", tf.ones([3])))
        once, twice, known = exchange.flush(last=False)
        single = exchange.blocking(Request(kind, value * 4.0))
        for result in (once, twice, single):
            assert result.shape.as_list() == [None, 2]
        exchange.flush(last=True)
        return once, twice, single, known

    once, twice, single, known = step(tf.ones([3, 2]))
    for result, expected in ((once, 1.0), (twice, 2.0), (single, 4.0)):
        np.testing.assert_array_equal(result, np.full([3, 2], expected))
    np.testing.assert_array_equal(known, np.ones(3))


def _is_fenced(result: tf.Tensor, value: tf.Tensor) -> bool:
    """Whether a tensor is a value past which nothing is optimised, as past an exchange."""
    return result.op.type == "TntFence" and result.op.inputs[0] is value


def test_on_one_rank_values_are_their_own_results() -> None:
    def step() -> Any:
        exchange = StepChannels("train_step").new_exchange()
        value = tf.ones([2])
        for kind in ("sum", "max", "gather", "broadcast"):
            exchange.ask(Request(kind, value))
        assert all(_is_fenced(result, value) for result in exchange.flush(last=True))
        assert _is_fenced(exchange.blocking(Request("sum", value)), value)

    graph = _graph_of(step)
    assert _operations(graph, STARTS | FINISHES | BLOCKING) == []


def test_the_plan_is_logged(channels: StepChannels, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("max", tf.ones([2, 3]), "norm", "model.py:7"))
        exchange.flush(last=False)
        exchange.blocking(Request("gather", tf.constant(["a"]), "words", ""))
        exchange.ask(Request("sum", tf.ones([5]), "kernel", "", is_update=True))
        exchange.ask(Request("sum", tf.constant(1.0, tf.float64), "loss", ""))
        return exchange.flush(last=True)

    handler = Collect()
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        _graph_of(step)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert records == [
        "train_step 1: 3 exchanges of 4 tensors, 52 bytes",
        "train_step 1: inside, 24 bytes: max of float32 (2, 3) for 'norm' (model.py:7)",
        "train_step 1: control flow, 0 bytes: gather of string for 'words'",
        "train_step 1: end, 28 bytes: update: sum of float32 (5) for 'kernel'; sum of float64 () "
        "for 'loss'",
    ]
