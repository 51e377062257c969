"""One training of the collection, and the decorators that collect it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import keras

Training: TypeAlias = "tuple[Any, dict[str, Any]]"


@dataclasses.dataclass(frozen=True)
class Case:
    """A training that is compared with serial Keras.

    Attributes:
        name: Name of the function that makes it.
        make: Returns a compiled, plain Keras model and the arguments of `fit`. What it builds is
            the same in each call.
        is_wrong: Whether the mean over ranks of what each computes of its rows is another training.
        policy: Name of the dtype policy in which the model is made.
        draws: Whether each rank draws random numbers of its own, so that results cannot be compared
            with serial ones. There must be no refusal.
        batch_statistics: Whether layers use statistics of the rank's rows, as Keras'
            BatchNormalization does. Results are not compared either.
        evaluates: Whether the model has what `evaluate` needs.
        predicts: Whether the model has what `predict` needs.
        half_precision: Whether plain Keras can train it with a mixed policy, and does not amplify
            rounding until nothing can be compared.
    """

    name: str
    make: Callable[[], Training]
    is_wrong: bool
    policy: str = "float32"
    draws: bool = False
    batch_statistics: bool = False
    evaluates: bool = True
    predicts: bool = True
    half_precision: bool = True

    @property
    def is_comparable(self) -> bool:
        """Whether results are those of the serial run."""
        return not (self.draws or self.batch_statistics)


CASES: dict[str, Case] = {}
"""All cases by name, in the order of the modules that define them."""


def right(**properties: Any) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    """Collect a training in which means over ranks would do as well."""
    return _collector(is_wrong=False, **properties)


def wrong(**properties: Any) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    """Collect a training that would be silently wrong with means over ranks."""
    return _collector(is_wrong=True, **properties)


def _collector(**properties: Any) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    def collect(make: Callable[[], Training]) -> Callable[[], Training]:
        @functools.wraps(make)
        def make_from_seed() -> Training:
            keras.utils.set_random_seed(7)
            return make()

        name = make.__name__
        if name in CASES:
            raise ValueError(f"There are two cases of the name {name!r}.")
        CASES[name] = Case(name, make_from_seed, **properties)
        return make_from_seed

    return collect
