"""Ranks that do different things are told so, all of them, with what each of them did."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from engines import GPI2
from gpi2_found import needs_gpi2

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, Group, MismatchError, TensorSpec
from tnt_comm.testing import Preloaded, run_ranks

CALLS: dict[str, Callable[[int], object]] = {
    "size": lambda rank: tnt_comm.allreduce(np.ones(3 + rank, np.float32)),
    "large size": lambda rank: tnt_comm.allreduce(np.ones(3 + 500_000 * rank, np.float32)),
    "dtype": lambda rank: tnt_comm.allreduce(np.ones(3, [np.float32, np.int32][rank > 0])),
    "operation": lambda rank: tnt_comm.allreduce(np.ones(3), ["sum", "max"][rank > 0]),
    "kind": lambda rank: tnt_comm.barrier() if rank else tnt_comm.broadcast(np.ones(2)),
    "root": lambda rank: tnt_comm.broadcast(np.ones(2), root=int(rank > 0)),
    "row shape": lambda rank: tnt_comm.allgather(np.ones((2, 3 + (rank > 0)))),
    "rows without elements": lambda rank: tnt_comm.gather(np.ones((2, 3 * (rank > 0), 0))),
    "no rows": lambda rank: tnt_comm.allgather(np.ones([2, ()][rank > 0])),
    "scatter": lambda rank: tnt_comm.reduce_scatter(np.ones((4 + (rank > 0), 2))),
    "shape": lambda rank: tnt_comm.allreduce(np.ones([(3, 2), (2, 3)][rank > 0])),
    "large shape": lambda rank: tnt_comm.allreduce(np.ones([(3, 50_000), (50_000, 3)][rank > 0])),
    "flat": lambda rank: tnt_comm.allreduce(np.ones([6, (2, 3)][rank > 0])),
    "shape of broadcast": lambda rank: tnt_comm.broadcast(np.ones([(3, 2), (2, 3, 1)][rank > 0])),
    "shape of alltoall": lambda rank: tnt_comm.alltoall(np.ones([(3, 2), (3, 2, 1)][rank > 0])),
    "object": lambda rank: Gatherer("g") if rank else Group().barrier(),
}

NAMED = {
    "size": ["rank 0 called allreduce(float32, 3 elements, sum)", "allreduce(float32, 4 elements"],
    "large size": ["allreduce(float32, 3 elements, sum)", "allreduce(float32, 500003 elements"],
    "dtype": ["allreduce(float32, 3 elements, sum)", "allreduce(int32, 3 elements, sum)"],
    "operation": ["allreduce(float64, 3 elements, sum)", "allreduce(float64, 3 elements, max)"],
    "kind": ["rank 0 called broadcast(float64, 2 elements, root 0)", "barrier()"],
    "root": ["broadcast(float64, 2 elements, root 0)", "broadcast(float64, 2 elements, root 1)"],
    "row shape": ["allgather(float64, 6 elements in rows of shape (3))", "in rows of shape (4))"],
    "rows without elements": ["in rows of shape (0, 0), root 0)", "in rows of shape (3, 0), root"],
    "no rows": ["allgather(float64, 2 elements)", "allgather(float64, 1 elements in rows of sha"],
    "scatter": ["reduce_scatter(float64, 8 elements", "reduce_scatter(float64, 10 elements"],
    "shape": ["allreduce(float64, 6 elements of shape (3, 2), sum)", "6 elements of shape (2, 3)"],
    "large shape": ["elements of shape (3, 50000), sum)", "elements of shape (50000, 3), sum)"],
    "flat": ["allreduce(float64, 6 elements, sum)", "(float64, 6 elements of shape (2, 3)"],
    "shape of broadcast": ["elements of shape (3, 2), root 0)", "elements of shape (2, 3, 1), r"],
    "shape of alltoall": ["elements of shape (3, 2))", "elements of shape (3, 2, 1))"],
    "object": ["rank 0 called barrier()", "ranks 1, 2 called creation of Gatherer 'g'"],
}


def message_of(what: str) -> str:
    tnt_comm.barrier()
    rank = tnt_comm.get_rank()
    with pytest.raises(MismatchError) as caught:
        CALLS[what](rank)
    with pytest.raises(MismatchError, match="broken since an earlier error"):
        tnt_comm.barrier()
    return str(caught.value)


def gather_or_wait(rank: int, *, label: str) -> object:
    """Gather 12 bytes with one label on rank 0, with another one elsewhere."""
    if rank == 0:
        return tnt_comm.allgather(np.zeros(12, np.uint8), label=LABEL, caller="train.py:31")
    return tnt_comm.allgather(np.zeros(12, np.uint8), label=label, caller="train.py:28")


LABEL = "predict: model structure"
ALPHA = "\N{GREEK SMALL LETTER ALPHA}"

LABELLED: dict[str, Callable[[int], object]] = {
    "other label": lambda rank: gather_or_wait(rank, label="fit: end of step"),
    "no label": lambda rank: gather_or_wait(rank, label=""),
    "barrier": lambda rank: tnt_comm.barrier(label=f"epoch {min(rank, 1)}", caller=f"t.py:{rank}"),
    "broadcast": lambda rank: tnt_comm.broadcast(np.ones(2), label="state" if rank else ""),
    "long": lambda rank: tnt_comm.barrier(
        label=ALPHA * 100 + str(rank), caller="/home/" * 50 + "train.py:7"
    ),
    "small allreduce": lambda rank: tnt_comm.allreduce(
        np.ones(1, np.uint8), "max", label=f"step of {min(rank, 1)}", caller=f"t.py:{rank}"
    ),
    "large allreduce": lambda rank: tnt_comm.allreduce(
        np.ones(500_000, np.uint8), label="sum" if rank else "", caller="t.py:3"
    ),
    "allreduce and barrier": lambda rank: (
        tnt_comm.allreduce(np.ones(2), label="sum", caller="t.py:4")
        if rank
        else tnt_comm.barrier(label="sum", caller="t.py:5")
    ),
    "reduce_scatter": lambda rank: tnt_comm.reduce_scatter(
        np.ones((4, 2)), label=f"sum {min(rank, 1)}", caller="t.py:6"
    ),
}

LABELS_NAMED = {
    "other label": [
        "rank 0 called allgather(uint8, 12 elements",
        "'predict: model structure' from train.py:31; ranks 1, 2 called allgather(uint8, 12 elem",
        "'fit: end of step' from train.py:28.",
    ],
    "no label": ["'predict: model structure' from train.py:31; ranks 1, 2", ") from train.py:28."],
    "barrier": [
        "rank 0 called barrier() 'epoch 0' from t.py:0",
        "rank 1 called barrier() 'epoch 1' from t.py:1",
        "rank 2 called barrier() 'epoch 1' from t.py:2",
    ],
    "broadcast": [
        "root 0) from test_mismatches.py:",
        "; ranks 1, 2 called broadcast(float64, 2 elements, root 0) 'state' from test_mismatches.",
    ],
    "long": [f"ranks 0, 1, 2 called barrier() '{ALPHA * 26}...' from ..", "/home/train.py:7."],
    "small allreduce": [
        "rank 0 called allreduce(uint8, 1 elements, max) 'step of 0' from t.py:0; ",
        "rank 1 called allreduce(uint8, 1 elements, max) 'step of 1' from t.py:1; ",
        "rank 2 called allreduce(uint8, 1 elements, max) 'step of 1' from t.py:2.",
    ],
    "large allreduce": ["rank 0 called allreduce(uint8, 500000 elements, sum) from t.py:3; ranks"],
    "allreduce and barrier": [
        "rank 0 called barrier() 'sum' from t.py:5; ",
        "ranks 1, 2 called allreduce(float64, 2 elements, sum) 'sum' from t.py:4.",
    ],
    "reduce_scatter": ["'sum 0' from t.py:6; ranks 1, 2 called", "'sum 1' from t.py:6."],
}


def message_of_labels(what: str) -> str:
    tnt_comm.barrier(label="all alike", caller=f"line {tnt_comm.get_rank()}")
    with pytest.raises(MismatchError) as caught:
        LABELLED[what](tnt_comm.get_rank())
    with pytest.raises(MismatchError, match="broken since an earlier error"):
        tnt_comm.barrier()
    return str(caught.value)


def message_of_kinds_of_objects() -> str:
    plan = FusionPlan([TensorSpec("a", "float32", 3)], 0)
    with pytest.raises(MismatchError) as caught:
        Gatherer("rows") if tnt_comm.get_rank() else GradientReducer(plan, name="gradients")
    return str(caught.value)


USERS_CALLS: dict[str, Callable[[Group], object]] = {
    "barrier()": lambda group: group.barrier(),
    "allreduce(float64, 3 elements, sum)": lambda group: group.allreduce(np.ones(3)),
    "allreduce(float64, 90000 elements, sum)": lambda group: group.allreduce(np.ones(90000)),
    "broadcast(float64, 3 elements, root 0)": lambda group: group.broadcast(np.ones(3)),
    "allgather(float64, 3 elements": lambda group: group.allgather(np.ones(3)),
    "reduce_scatter(float64, 3 elements": lambda group: group.reduce_scatter(np.ones(3)),
    "allreduce(float64, 4 elements, sum)": lambda group: group.start_allreduce(np.ones(4)).wait(),
}


def line_of(call: str) -> str:
    return f"test_mismatches.py:{USERS_CALLS[call].__code__.co_firstlineno}"


def messages_of_lines(others: list[str], late: int | None) -> list[str]:
    """Meet each of some calls of rank 1 with a barrier of rank 0; the late rank comes later."""
    messages = []
    for other in others:
        group = Group([0, 1])
        group.barrier()
        if group.rank == late:
            time.sleep(0.02)
        with pytest.raises(MismatchError) as caught:
            USERS_CALLS[other if group.rank == 1 else "barrier()"](group)
        messages.append(str(caught.value))
    return messages


def allreduce_and_leave() -> str:
    """Start an allreduce on rank 1, which then ends without waiting, and wait on rank 0."""
    tnt_comm.barrier()
    if tnt_comm.get_rank() == 1:
        Group().start_allreduce(np.ones(3))
        return ""
    with pytest.raises(MismatchError) as caught:
        tnt_comm.barrier(caller="t.py:8")
    return str(caught.value)


CREATIONS: dict[str, Callable[[int], object]] = {
    "world": lambda rank: Group([0, 1]) if rank == 0 else tnt_comm.barrier(caller="t.py:9"),
    "allreduce": lambda rank: Group([0, 1]) if rank == 0 else tnt_comm.allreduce(np.ones(3)),
    "other group": lambda rank: Group([0, 1]) if rank == 0 else Group([0, 1, 2]),
    "ring": lambda rank: Group([rank, rank + 1]) if rank < 2 else tnt_comm.barrier(caller="t.py:9"),
}

CREATIONS_NAMED = {
    "world": ["rank 0 creates group 'ranks 0, 1' from {line}, while rank 1 waits", "from t.py:9,"],
    "allreduce": ["waits for it in call 1, allreduce(float64, 3 elements, sum) from {line}, of"],
    "other group": ["group 'ranks 0, 1' from {line}", "group 'ranks 0, 1, 2' from {line}"],
    "ring": ["rank 1 creates group 'ranks 1, 2' from {line}, while rank 2 waits", "from t.py:9,"],
}


def message_of_creation(what: str) -> str:
    """Create a group on some ranks only, while others are in another call."""
    tnt_comm.barrier()
    rank = tnt_comm.get_rank()
    with pytest.raises(MismatchError) as caught:
        CREATIONS[what](rank)
    return str(caught.value)


def create_while_a_call_is_in_flight() -> float:
    """Create a group although a call of the world has waited for long: that is no mismatch."""
    rank = tnt_comm.get_rank()
    tnt_comm.barrier()
    if rank == 0:
        Group([0, 1, 2])
        return float(tnt_comm.allreduce(np.ones(1))[0])
    ticket = Group().start_allreduce(np.ones(1))
    time.sleep(1.0)
    if rank == 2:
        time.sleep(0.5)
    Group([0, 1, 2])
    return float(ticket.wait()[0])


def equal_labels() -> list[object]:
    where = f"script.py:{tnt_comm.get_rank()}"
    tnt_comm.barrier(label="a", caller=where)
    assert tnt_comm.allreduce(np.ones(1), label="e", caller=where)[0] == tnt_comm.get_size()
    group = tnt_comm.Group()
    tickets = [
        group.start_barrier(label="b", caller=where),
        group.start_broadcast(np.arange(2), label="c", caller=where),
        group.start_allgather(np.full(1, group.rank), label="d", caller=where),
    ]
    _, received, blocks = [ticket.wait() for ticket in tickets]
    return [received.tolist(), [block.tolist() for block in blocks]]


def message_of_order() -> str:
    group = tnt_comm.Group()
    one = np.ones(2)
    first, second = (one, one[:1]) if tnt_comm.get_rank() == 0 else (one[:1], one)
    ticket = group.start_allreduce(first)
    with pytest.raises(MismatchError):
        group.start_allreduce(second).wait()  # depending on timing, the start says so already
    with pytest.raises(MismatchError) as caught:
        ticket.wait()
    return str(caught.value)


def plan_of(kind: str, differs: bool) -> FusionPlan:
    specs = [TensorSpec("a", "float32", 3), TensorSpec("b", "float32", 4)]
    if differs and kind == "size":
        specs[1] = TensorSpec("b", "float32", 5)
    if differs and kind == "dtype":
        specs[1] = TensorSpec("b", "float64", 4)
    if differs and kind == "name":
        specs[1] = TensorSpec("c", "float32", 4)
    if differs and kind == "number":
        specs.append(TensorSpec("c", "int8", 1))
    return FusionPlan(specs, 100 + (differs and kind == "threshold"))


PLANS = {
    "size": ["tensor 1 'b' (float32, 4 elements)", "tensor 1 'b' (float32, 5 elements)"],
    "dtype": ["tensor 1 'b' (float32, 4 elements)", "tensor 1 'b' (float64, 4 elements)"],
    "name": ["tensor 1 'b' (float32, 4 elements)", "tensor 1 'c' (float32, 4 elements)"],
    "number": ["with nothing more", "tensor 2 'c' (int8, 1 elements)"],
    "threshold": ["threshold of 100 bytes", "threshold of 101 bytes"],
}


def message_of_plan(kind: str) -> str:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    with pytest.raises(MismatchError) as caught:
        GradientReducer(plan_of(kind, differs=rank == size - 1), name="g")
    return str(caught.value)


def message_of_object_names() -> str:
    with pytest.raises(MismatchError) as caught:
        Gatherer(f"rows of {tnt_comm.get_rank()}")
    return str(caught.value)


@pytest.mark.parametrize("what", list(CALLS))
def test_different_calls_are_named_on_all_ranks(what: str, forks: Preloaded) -> None:
    messages = run_ranks(message_of, 3, what, preloaded=forks)
    assert len(set(messages)) == 1
    assert "call 1 of group 'world'" in messages[0]
    assert "ranks 1, 2 called" in messages[0] or what in ("size", "large size")
    for text in NAMED[what]:
        assert text in messages[0]


@pytest.mark.parametrize("what", list(LABELLED))
def test_different_labels_are_named_on_all_ranks(what: str, forks: Preloaded) -> None:
    messages = run_ranks(message_of_labels, 3, what, preloaded=forks)
    assert len(set(messages)) == 1
    assert "call 1 of group 'world'" in messages[0]
    for text in LABELS_NAMED[what]:
        assert text in messages[0]


@needs_gpi2
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", list(LABELLED))
def test_different_labels_are_named_over_gpi2(what: str) -> None:
    messages = run_ranks(message_of_labels, 3, what, env=GPI2, timeout_s=240)
    assert len(set(messages)) == 1
    for text in LABELS_NAMED[what]:
        assert text in messages[0]


OTHERS = [call for call in USERS_CALLS if call != "barrier()"]


def names_both_lines(messages: list[list[str]]) -> None:
    assert messages[0] == messages[1]
    for other, message in zip(OTHERS, messages[0], strict=True):
        assert f"rank 0 called barrier() from {line_of('barrier()')}; " in message
        assert f"; rank 1 called {other}" in message
        assert f" from {line_of(other)}. All members" in message


@pytest.mark.parametrize("late", [None, 0, 1])
def test_the_users_lines_are_named_on_all_ranks(late: int | None, forks: Preloaded) -> None:
    names_both_lines(run_ranks(messages_of_lines, 2, OTHERS, late, preloaded=forks))


@needs_gpi2
@pytest.mark.timeout(300)
@pytest.mark.parametrize("late", [None, 0, 1])
def test_the_users_lines_are_named_over_gpi2(late: int | None) -> None:
    names_both_lines(run_ranks(messages_of_lines, 2, OTHERS, late, env=GPI2, timeout_s=240))


def test_a_mismatch_with_a_rank_that_has_left_is_named(forks: Preloaded) -> None:
    message = run_ranks(allreduce_and_leave, 2, preloaded=forks)[0]
    assert "rank 0 called barrier() from t.py:8; rank 1 called allreduce(float64, 3 el" in message


SOON = {"TNT_STALL_S": "0.3"}
"""When a rank that waits begins to look for others who wait for it in another call."""


def names_the_creation(what: str, messages: list[str]) -> None:
    for text in CREATIONS_NAMED[what]:
        for message in messages:
            line = f"test_mismatches.py:{CREATIONS[what].__code__.co_firstlineno}"
            assert text.format(line=line) in message


@pytest.mark.parametrize("what", list(CREATIONS))
def test_a_group_that_others_do_not_create_is_named_on_all_ranks(
    what: str, forks: Preloaded
) -> None:
    names_the_creation(what, run_ranks(message_of_creation, 3, what, env=SOON, preloaded=forks))


@needs_gpi2
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", list(CREATIONS))
def test_a_group_that_others_do_not_create_is_named_over_gpi2(what: str) -> None:
    env = GPI2 | SOON
    names_the_creation(what, run_ranks(message_of_creation, 3, what, env=env, timeout_s=240))


def test_a_group_may_be_created_while_calls_of_the_world_are_in_flight(forks: Preloaded) -> None:
    assert run_ranks(create_while_a_call_is_in_flight, 3, env=SOON, preloaded=forks) == [3.0] * 3


def test_equal_labels_of_different_callers_match(forks: Preloaded) -> None:
    assert run_ranks(equal_labels, 3, preloaded=forks) == [[[0, 1], [[0], [1], [2]]]] * 3


def test_different_kinds_of_objects_are_named(forks: Preloaded) -> None:
    for message in run_ranks(message_of_kinds_of_objects, 2, preloaded=forks):
        assert "rank 0 creates GradientReducer 'gradients'" in message
        assert "rank 1 creates Gatherer 'rows'" in message


def test_another_order_of_calls_is_named(forks: Preloaded) -> None:
    for message in run_ranks(message_of_order, 2, preloaded=forks):
        assert "rank 0 called allreduce(float64, 2 elements, sum)" in message
        assert "rank 1 called allreduce(float64, 1 elements, sum)" in message


@pytest.mark.parametrize("kind", list(PLANS))
def test_the_first_tensor_that_differs_is_named_on_all_ranks(kind: str, forks: Preloaded) -> None:
    messages = run_ranks(message_of_plan, 3, kind, preloaded=forks)
    assert len(set(messages)) == 1
    assert "rank 0 creates GradientReducer 'g'" in messages[0]
    assert "rank 2 creates GradientReducer 'g'" in messages[0]
    for text in PLANS[kind]:
        assert text in messages[0]


def test_different_names_of_objects_are_named(forks: Preloaded) -> None:
    for message in run_ranks(message_of_object_names, 2, preloaded=forks):
        assert "rank 0 creates Gatherer 'rows of 0', rank 1 creates Gatherer 'rows of 1'" in message
