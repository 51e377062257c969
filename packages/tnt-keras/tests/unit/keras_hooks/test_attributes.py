"""Objects of a class are found in attributes, however deep."""

from __future__ import annotations

import types

from tnt_keras.keras_hooks.private import in_attributes


def test_objects_in_lists_tuples_and_dictionaries_are_found_once_and_in_order() -> None:
    one, two, three = 1.5, 2.5, 3.5
    owner = types.SimpleNamespace(a=one, b=[{"c": (two, "no")}, one], d={"e": {"f": [three]}}, g=4)
    assert in_attributes(owner, float) == [one, two, three]


def test_what_contains_itself_is_looked_at_once() -> None:
    endless: list[object] = [1.5]
    endless.append(endless)
    assert in_attributes(types.SimpleNamespace(a=endless), float) == [1.5]
