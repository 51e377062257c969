"""One training script, and the decorator that collects it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np

Training: TypeAlias = "tuple[Any, dict[str, Any]]"

ROWS = 23  # in batches of seven: the last has two
BATCH = 7


@dataclasses.dataclass(frozen=True)
class Case:
    """A training that must give in replicas what plain Keras gives.

    Attributes:
        name: Name of the function that makes it.
        make: Returns a compiled model and the arguments of `fit`, the same in each call.
        policy: Name of the dtype policy in which the model is made.
        evaluates: Whether the model has what `evaluate` needs.
        predicts: Whether the model has what `predict` needs.
        rtol: Rounding that is allowed, of each array's largest value.
        amplifies: Whether steps amplify rounding: what moving the weights by one unit in the last
            place changes is allowed too, ten times.
        gathers: Types of operations for which rows are gathered because no rule applies.
    """

    name: str
    make: Callable[[], Training]
    policy: str = "float32"
    evaluates: bool = True
    predicts: bool = True
    rtol: float = 3e-5
    amplifies: bool = False
    gathers: frozenset[str] = frozenset()


CASES: dict[str, Case] = {}
"""All scripts by name, in the order of the modules that define them."""


def script(
    *, gathers: str = "", **properties: Any
) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    """Collect a training script."""

    def collect(make: Callable[[], Training]) -> Callable[[], Training]:
        @functools.wraps(make)
        def make_from_seed() -> Training:
            keras.utils.set_random_seed(7)
            return make()

        name = make.__name__
        if name in CASES:
            raise ValueError(f"There are two scripts of the name {name!r}.")
        CASES[name] = Case(name, make_from_seed, gathers=frozenset(gathers.split()), **properties)
        return make_from_seed

    return collect


def drawn(*shape: int, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """Return normal numbers for each row."""
    return np.random.default_rng(seed).normal(size=(rows, *shape)).astype("float32")


def chosen(number: int, *shape: int, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """Return integers below a number for each row."""
    return np.random.default_rng(seed).integers(0, number, (rows, *shape)).astype("int32")


def fitted(x: Any, y: Any = None, **more: Any) -> dict[str, Any]:
    """Return the arguments of `fit` for arrays."""
    given = {"x": x} if y is None else {"x": x, "y": y}
    return {**given, "batch_size": BATCH, "epochs": 2, "shuffle": False, "verbose": 0, **more}
