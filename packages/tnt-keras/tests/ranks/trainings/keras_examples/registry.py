"""The examples by name, and the decorator that collects them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

MARK = "  # changed"
"""Ends each line that differs from plain Keras, but for those with `tnt.Model`."""

Run = Callable[[Any], "dict[str, np.ndarray]"]


@dataclasses.dataclass(frozen=True)
class Example:
    """A training of a kind that Keras' examples and guides show.

    Attributes:
        name: Name of the function.
        topic: Heading in the documentation.
        kind: What it shows, in a few words.
        run: Trains with what stands for `tarantella`, which is plain Keras in a serial run, and
            returns what it shows: losses, weights, predictions, texts.
    """

    name: str
    topic: str
    kind: str
    run: Run

    @property
    def changed_lines(self) -> list[str]:
        """The lines that differ from plain Keras, without indentation and mark; each once."""
        lines = inspect.getsource(self.run).splitlines()
        changed = [
            line.strip().removesuffix(MARK.strip()).rstrip() for line in lines if MARK in line
        ]
        return list(dict.fromkeys(changed))


EXAMPLES: dict[str, Example] = {}
"""All examples by name, in the order of the modules that define them."""


def example(topic: str, kind: str) -> Callable[[Run], Run]:
    """Collect an example.

    Args:
        topic: Heading in the documentation.
        kind: What it shows.
    """

    def collect(run: Run) -> Run:
        name = run.__name__
        if name in EXAMPLES:
            raise ValueError(f"There are two examples of the name {name!r}.")
        EXAMPLES[name] = Example(name, topic, kind, run)
        return run

    return collect
