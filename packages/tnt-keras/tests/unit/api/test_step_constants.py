"""Which arguments of a step function are the same constant."""

from __future__ import annotations

from typing import Any

import pytest

from tnt_keras.api.function_arguments import Constant


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


SHARED = Unhashable()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": [1, (2, {3})]}, {"a": [1, (2, {3})]}),
        ((), ()),
        ([SHARED, "b"], [SHARED, "b"]),
        (None, None),
    ],
)
def test_equal_contents_are_one_constant(one: Any, other: Any) -> None:
    assert Constant(one, True) == Constant(other, True)
    assert hash(Constant(one, True)) == hash(Constant(other, True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        ([1], [True]),
        ([1], (1,)),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ([Unhashable()], [Unhashable()]),
        ({1}, {2}),
    ],
)
def test_other_contents_or_types_are_another_constant(one: Any, other: Any) -> None:
    assert Constant(one, True) != Constant(other, True)


def test_a_graph_keeps_the_contents_that_it_was_made_with() -> None:
    settings = {"rate": 1.0, "names": ["a"], "kinds": {1}}
    constant = Constant(settings, True)
    settings["rate"] = 2.0
    settings["names"].append("b")
    settings["kinds"].add(2)
    assert constant.value == {"rate": 1.0, "names": ["a"], "kinds": {1}}
    assert constant != Constant(settings, True)


def test_an_eager_step_sees_and_changes_the_callers_own_objects() -> None:
    losses: list[float] = []
    constant = Constant(losses, False)
    losses.append(1.0)
    assert constant.value is losses
    assert constant == Constant(losses, False)
