"""What the serial run of a step leaves to those that are compared with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.probe.runs.batch_moments import BatchMoments
from tnt_keras.probe.runs.draws import Draws
from tnt_keras.probe.runs.observation import Kind, Observation
from tnt_keras.probe.runs.step_watch import StepWatch, Values


@dataclasses.dataclass
class Reference:
    """The serial run of a step from one state, which the other runs from it follow.

    Attributes:
        state: What the variables that differ from the initial state hold when the step begins.
        draws: The random numbers that it drew.
        moments: The moments of batch normalisation.
        amplification: What the gradients of tapes are multiplied by. If they are, optimizers
            change nothing.
        left_out: The number of a call of an optimizer that is left out.
        changes_gradients: Whether an optimizer was given others than those of a tape.
        counters: Variables that count steps, by which the step may decide what it does.
        scalar_moves: Real scalars that the step changed, and by how much each.
        num_bytes: Of the samples and of what layers have computed from them.
        after_applications: What each call of an optimizer made of the variables that it changed.
        observation: What it computed.
        slice_rows: Of each sparse gradient, the indices of its slices, sorted, each once.
        after: Variables that it changed, as they are at its end: all of them if another run begins
            there, else those of metrics.
    """

    state: Values
    draws: Draws
    moments: BatchMoments
    amplification: float = 1.0
    left_out: int | None = None
    changes_gradients: bool = False
    counters: list[tf.Variable] = dataclasses.field(default_factory=list)
    scalar_moves: list[tuple[tf.Variable, float]] = dataclasses.field(default_factory=list)
    num_bytes: int = 0
    after_applications: list[Values] = dataclasses.field(default_factory=list)
    observation: Observation = dataclasses.field(default_factory=dict)
    slice_rows: dict[Hashable, Any] = dataclasses.field(default_factory=dict)
    after: Values = dataclasses.field(default_factory=list)

    def computes_numbers(self) -> bool:
        """Return whether some gradient is a number, or there are none. Pure."""
        gradients = [
            observed.entries
            for quantity, observed in self.observation.items()
            if quantity.kind is Kind.GRADIENT and observed.entries.size
        ]
        return not gradients or any(np.isfinite(entries).any() for entries in gradients)

    def follow(self, watch: StepWatch) -> None:
        """Take over what later runs need of this one. Local.

        Args:
            watch: Of the run.
        """
        self.after_applications = watch.applied
        self.changes_gradients = watch.changes_gradients
        self.slice_rows = {
            quantity.key: np.unique(np.asarray(value.indices))
            for quantity, value in watch.values
            if isinstance(value, tf.IndexedSlices)
        }
