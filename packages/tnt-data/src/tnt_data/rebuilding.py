"""Builds the part of a pipeline that every rank runs in full: repaired, without moved steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tensorflow as tf

from tnt_data.completing import read_one_ahead
from tnt_data.moving import Move
from tnt_data.pipeline import JOINS_SAMPLES, Kind, Step
from tnt_data.seeding import assign_seeds
from tnt_data.steps import Changes, replay_step

_PRACTICALLY_ALL = 2**62


@dataclass(frozen=True)
class Repairs:
    """What is set right in steps that would make ranks differ.

    Attributes:
        rank: Rank of the caller.
        size: Number of ranks.
        seed: Seed for shuffles without one.
    """

    rank: int
    size: int
    seed: int

    def needed_by(self, step: Step) -> bool:
        """Whether a step has to be repeated for its own sake. Local."""
        has_shared_file = bool(step.cache_file and self.size > 1)
        return step.needs_seed or step.lacks_order or has_shared_file or step.freezes_order

    def repeat(
        self, step: Step, inputs: list[tf.data.Dataset], seed: int | None = None
    ) -> tf.data.Dataset:
        """A step on other inputs, set right. Local.

        Args:
            step: The step.
            inputs: As many as it has.
            seed: Another seed than the first one.
        """
        repeated = replay_step(step.handle, inputs, self.changes(seed))
        return read_one_ahead(repeated) if step.freezes_order else repeated

    def changes(self, seed: int | None = None) -> Changes:
        """What becomes different when a step is repeated. Local.

        Args:
            seed: Another seed than the first one.
        """
        suffix = f".rank{self.rank}of{self.size}" if self.size > 1 else ""
        return Changes(self.seed if seed is None else seed, suffix, self.rank)


@dataclass(frozen=True)
class Rebuilder:
    """Builds pipelines up to a step.

    Whatever needs no change is the user's own object, so that caches and the state of shuffles live
    on from one call to the next.

    Attributes:
        repairs: What is set right.
        move: Steps that are left out.
    """

    repairs: Repairs
    move: Move = field(default_factory=Move)

    def build(self, last: Step) -> tf.data.Dataset:
        """The pipeline up to a step. Local.

        Where a step that joins samples is left out, there are windows of samples.
        """
        return self._build(last, assign_seeds(last, self.repairs.seed), {})

    def _build(
        self, step: Step, seeds: Mapping[int, int], done: dict[int, tf.data.Dataset]
    ) -> tf.data.Dataset:
        """Builds up to a step; a dataset object that feeds several branches stays one object."""
        if any(moved.step is step for moved in self.move.steps):
            return _without(step, self._build(step.inputs[0], seeds, done))
        if not step.can_be_rebuilt:
            return step.handle
        if step.identity not in done:
            inputs = [self._build(feeding, seeds, done) for feeding in step.inputs]
            done[step.identity] = self._build_on(step, inputs, seeds[step.identity])
        return done[step.identity]

    def _build_on(self, step: Step, inputs: list[tf.data.Dataset], seed: int) -> tf.data.Dataset:
        changed = any(new is not old.handle for new, old in zip(inputs, step.inputs, strict=True))
        if not changed and not self.repairs.needed_by(step):
            return step.handle
        if step in self.move.apart and step.kind is Kind.ARRANGE:
            inputs = [inputs[0].take(_PRACTICALLY_ALL)]
        return self.repairs.repeat(step, inputs, seed)


def _without(step: Step, source: tf.data.Dataset) -> tf.data.Dataset:
    if step.kind not in JOINS_SAMPLES:
        return source
    assert step.batch is not None
    return source.window(step.batch.batch_size, drop_remainder=step.batch.drop_remainder)
