"""Lists of the same sizes share a reducer: each summand has its own place, that of its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_keras.exchange.channels import (
    Fusion,
    SharedGatherers,
    SharedReducers,
    Summand,
    assigned,
)

SUMMANDS = st.builds(
    Summand, st.sampled_from("abc"), st.sampled_from(["float32", "int64"]), st.integers(0, 2)
)


@st.composite
def lists_of_same_sizes(draw: st.DrawFn) -> tuple[list[Summand], list[Summand]]:
    places = draw(st.lists(SUMMANDS, max_size=8))
    order = draw(st.permutations(places))
    summands = [
        Summand(draw(st.sampled_from("abcd")), each.dtype, each.num_elements) for each in order
    ]
    return places, summands


@given(lists=lists_of_same_sizes(), by_name=st.booleans())
def test_each_summand_has_a_place_of_its_size(
    lists: tuple[list[Summand], list[Summand]], by_name: bool
) -> None:
    places, summands = lists
    ids = assigned(places, summands, by_name=by_name)
    assert sorted(ids) == list(range(len(places)))
    assert [places[i].kind for i in ids] == [summand.kind for summand in summands]


@given(places=st.lists(SUMMANDS, max_size=8), data=st.data())
def test_the_same_summands_in_another_order_keep_their_places(
    places: list[Summand], data: st.DataObject
) -> None:
    summands = data.draw(st.permutations(places))
    ids = assigned(places, summands, by_name=True)
    assert [places[i] for i in ids] == list(summands)


@given(lists=lists_of_same_sizes())
def test_without_names_places_do_not_depend_on_them(
    lists: tuple[list[Summand], list[Summand]],
) -> None:
    places, summands = lists
    nameless = [Summand("", each.dtype, each.num_elements) for each in summands]
    assert assigned(places, summands, by_name=False) == assigned(places, nameless, by_name=False)


def test_buckets_are_filled_in_the_order_in_which_summands_come_into_being() -> None:
    reducers = SharedReducers("test", lambda: Fusion(threshold_bytes=0))
    summands = [Summand(name, "float32", 1) for name in ("first", "second", "third")]
    [first, second, third] = reducers.tensors_for(summands)
    plan = first.reducer.plan
    order = [bucket.tensor_ids for bucket in plan.buckets]
    assert order == [(first.tensor_id,), (second.tensor_id,), (third.tensor_id,)]
    assert plan.tensors[first.tensor_id].name == "first"


def test_lists_of_the_same_sizes_share_a_reducer() -> None:
    reducers = SharedReducers("test")
    a, b = Summand("a", "float32", 2), Summand("b", "float32", 3)
    first = reducers.tensors_for([a, b])
    second = reducers.tensors_for([b, a])
    assert {place.reducer for place in first} == {place.reducer for place in second}
    assert [place.tensor_id for place in second] == [place.tensor_id for place in first][::-1]
    [alone] = reducers.tensors_for([a])
    assert alone.reducer is not first[0].reducer
    assert reducers.tensors_for([]) == []


@pytest.mark.parametrize("are_alike", [False, True])
def test_messages_say_if_a_place_serves_others_too(are_alike: bool) -> None:
    reducers = SharedReducers("test", are_alike=are_alike)
    [place] = reducers.tensors_for([Summand("mean", "float32", 2)])
    [spec] = place.reducer.plan.tensors
    assert spec.name == ("mean, or one like it" if are_alike else "mean")


def test_gatherers_are_made_when_they_are_needed_and_used_again() -> None:
    gatherers = SharedGatherers("test")
    assert gatherers.first(0) == []
    two = gatherers.first(2)
    assert gatherers.first(1) == two[:1]
    assert gatherers.first(3)[:2] == two
