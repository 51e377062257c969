"""Cases of training steps: a function of weights and a batch, and how batches are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases

Array = np.ndarray[Any, Any]
Maker = Callable[[np.random.Generator, int], Array]

WORDS = np.array(["", "a", "bb", "a cc", "bb dd a", "é", "long " * 9])


def floats(*sizes: int) -> Maker:
    """Normal numbers, so many for each row."""
    return lambda rng, rows: rng.normal(size=(rows, *sizes)).astype("float32")


def integers(below: int, *sizes: int) -> Maker:
    """Whole numbers from zero."""
    return lambda rng, rows: rng.integers(0, below, (rows, *sizes)).astype("int32")


def words(*sizes: int) -> Maker:
    """Strings of several lengths, some empty."""
    return lambda rng, rows: WORDS[rng.integers(0, len(WORDS), (rows, *sizes))]


@dataclasses.dataclass(frozen=True)
class StepCase:
    """A function of weights and a batch.

    Attributes:
        function: Takes the weights and the tensors of a batch, returns a structure of tensors.
        inputs: Make the arrays of a batch.
        weights: The shape of the weights.
        rtol: Rounding that is allowed in what the step leaves and returns.
    """

    function: Callable[..., Any]
    inputs: Sequence[Maker]
    weights: tuple[int, ...]
    rtol: float

    def batch(self, rows: int, seed: int = 0) -> list[Array]:
        """Return a batch of so many rows."""
        rng = np.random.default_rng([seed, rows])
        return [make(rng, rows) for make in self.inputs]

    def new_weights(self) -> tf.Variable:
        """Return the weights before the first step."""
        rng = np.random.default_rng(len(self.weights))
        return tf.Variable(rng.normal(size=self.weights).astype("float32"))

    def train_step(self, weights: tf.Variable) -> Callable[..., Any]:
        """Return the step that moves weights along the gradient of all that is returned."""

        def step(*batch: tf.Tensor) -> Any:
            watched = [t for t in batch if t.dtype.is_floating]
            with tf.GradientTape() as tape:
                for tensor in watched:
                    tape.watch(tensor)
                values = self.function(weights, *batch)
                loss = loss_of(values)
            gradients = tape.gradient(loss, [weights, *watched], unconnected_gradients="zero")
            gradients = [tf.convert_to_tensor(g) for g in gradients]
            weights.assign_sub(0.1 * gradients[0])
            return values, loss, gradients

        return step


def in_groups(argument: str, kinds: Mapping[str, Callable[..., Any]]) -> pytest.MarkDecorator:
    """Parametrize by functions of weights and a batch: some in one graph, in the long run each."""
    names = list(kinds)
    groups = [names[begin : begin + 6] for begin in range(0, len(names), 6)]

    def of_names(names: Sequence[str]) -> Any:
        functions = [kinds[name] for name in names]
        return pytest.param(
            lambda w, x: [function(w, x) for function in functions], id=", ".join(names)
        )

    return cases(argument, map(of_names, groups), thorough=[of_names([name]) for name in names])


def loss_of(values: Any) -> tf.Tensor:
    """A smooth loss with another slope for every number of a structure that has one."""
    flat = [tf.convert_to_tensor(v) for v in tf.nest.flatten(values)]
    return tf.add_n([_mean_of(v) for v in flat if v.dtype.is_floating or v.dtype.is_complex])


def _mean_of(value: tf.Tensor) -> tf.Tensor:
    if value.dtype.is_complex:
        return _mean_of(tf.math.real(value)) + 0.5 * _mean_of(tf.math.imag(value))
    value = tf.cast(value, tf.float32)
    return tf.reduce_mean(tf.sqrt(1.0 + value * value) + 0.3 * value)


class Catalogue(dict[str, StepCase]):
    """Cases by the names of their functions."""

    def step(
        self, *inputs: Maker, weights: tuple[int, ...] = (4, 3), rtol: float = 3e-5
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Enter a function. Args: as the attributes of `StepCase`."""

        def enter(function: Callable[..., Any]) -> Callable[..., Any]:
            assert function.__name__ not in self
            self[function.__name__] = StepCase(function, inputs or (floats(4),), weights, rtol)
            return function

        return enter
