"""Carries out a plan: builds one rank's dataset from the description of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tnt_data.picking import pick_rows
from tnt_data.pipeline import Kind, Step
from tnt_data.planning import SplitPlan, Way
from tnt_data.slicing import slice_batches
from tnt_data.tensorflow_private import Changes, replay_step


@dataclass(frozen=True)
class Rewriter:
    """Builds the dataset of one rank.

    Attributes:
        rank: Rank of the caller.
        size: Number of ranks.
        seed: Seed for shuffles without one.
    """

    rank: int
    size: int
    seed: int

    def build(self, plan: SplitPlan) -> tf.data.Dataset:
        """The dataset of `MicroBatch` that a plan describes. Local.

        Raises:
            UnsupportedElementError: If the elements have no rows that ranks could share.
        """
        if plan.way is Way.PICK:
            feeding = self.rebuild(plan.split.inputs[0])
            dataset = pick_rows(feeding, plan.split, self.rank, self.size)
        else:
            dataset = slice_batches(self.rebuild(plan.split), self.rank, self.size)
        for step in reversed(plan.steps[:-1]):
            dataset = replay_step(step.handle, [dataset], self._changes(self.seed))
        if tf.executing_eagerly() and dataset.options().deterministic is False:
            options = tf.data.Options()
            options.deterministic = True
            dataset = dataset.with_options(options)
        return dataset

    def rebuild(self, step: Step) -> tf.data.Dataset:
        """The pipeline up to a step, with seeds and order repaired.

        Whatever needs no repair is the user's own object, so that caches and the state of shuffles
        live on from one call to the next.
        """
        return self._rebuild(step, self.seed, {})

    def _rebuild(self, step: Step, seed: int, done: dict[int, tf.data.Dataset]) -> tf.data.Dataset:
        """Rebuilds a step; a dataset object that feeds several branches stays one object."""
        if not step.can_be_rebuilt:
            return step.handle
        if id(step.handle) not in done:
            done[id(step.handle)] = self._rebuild_once(step, seed, done)
        return done[id(step.handle)]

    def _rebuild_once(
        self, step: Step, seed: int, done: dict[int, tf.data.Dataset]
    ) -> tf.data.Dataset:
        inputs = []
        for feeding in step.inputs:
            inputs.append(self._rebuild(feeding, seed, done))
            if step.kind is Kind.MERGE and any(one.lacks_seed for one in feeding.walk()):
                # Shuffles that are merged must stay independent: with the same seed, a zip of two
                # shuffles of the same samples would pair every sample with itself.
                seed += 1
        changed = any(new is not old.handle for new, old in zip(inputs, step.inputs, strict=True))
        if changed or self._needs_repair(step):
            return replay_step(step.handle, inputs, self._changes(seed))
        return step.handle

    def _needs_repair(self, step: Step) -> bool:
        return step.lacks_seed or step.lacks_order or bool(step.cache_file and self.size > 1)

    def _changes(self, seed: int) -> Changes:
        suffix = f".rank{self.rank}of{self.size}" if self.size > 1 else ""
        return Changes(seed, suffix)
