"""Attributes are replaced for a while, for one thread, and are what they were afterwards."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from tnt_keras.keras_hooks.patch import replaced, when_imported


class Owner:
    """Has a method, a property and a value."""

    value = "plain"

    def method(self) -> str:
        return "plain"

    @property
    def kind(self) -> str:
        return "plain"


class Child(Owner):
    """Inherits all of it."""


def of_all_kinds() -> list[str]:
    child = Child()
    return [child.method(), child.kind]


def in_another_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_functions_and_properties_are_replaced_in_one_thread_alone() -> None:
    with (
        replaced(Child, "method", lambda self: "new"),
        replaced(Child, "kind", property(lambda self: "new")),
    ):
        assert of_all_kinds() == ["new", "new"]
        assert in_another_thread(of_all_kinds) == ["plain", "plain"]
    assert of_all_kinds() == ["plain", "plain"]
    assert vars(Child).keys() & {"method", "kind"} == set()


def test_what_was_replaced_twice_is_seen_by_each_thread_as_it_should_be() -> None:
    with replaced(Owner, "method", lambda self: "outer"):
        with replaced(Owner, "method", lambda self: "inner"):
            assert of_all_kinds()[0] == "inner"
            assert in_another_thread(of_all_kinds)[0] == "plain"
        assert of_all_kinds()[0] == "outer"


def test_the_method_of_an_object_hides_that_of_its_class() -> None:
    owner, other = Owner(), Owner()
    with replaced(owner, "method", lambda: "new"):
        assert (owner.method(), other.method()) == ("new", "plain")
        assert in_another_thread(owner.method) == "plain"
    assert vars(owner) == {}


def test_values_are_replaced_for_all_threads() -> None:
    with replaced(Owner, "value", "new"):
        assert in_another_thread(lambda: Owner.value) == "new"
    assert Owner.value == "plain"


def test_an_action_waits_for_the_import_of_a_module_and_is_done_once() -> None:
    name, seen = "colorsys", []
    sys.modules.pop(name, None)
    when_imported(name, lambda: seen.append(hasattr(sys.modules[name], "rgb_to_hsv")))
    assert seen == []
    importlib.import_module(name)
    importlib.reload(sys.modules[name])
    assert seen == [True]
    when_imported(name, lambda: seen.append("at once"))
    assert seen == [True, "at once"]
