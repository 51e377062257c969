"""Build the part of a pipeline that every rank runs in full: repaired, without what is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import tensorflow as tf

from tnt_data.description.seeds import assign_seeds
from tnt_data.description.transformation import JOINS_SAMPLES, Kind, Transformation
from tnt_data.elements.row_split import RowSplit
from tnt_data.plan.pushdown import Pushdown
from tnt_data.rank_dataset.lookahead import read_one_ahead
from tnt_data.transformations.dataset_class import Branch, Changes
from tnt_data.transformations.rebuild import rebuild, rebuild_with_numbers

_MORE_THAN_ALL = 2**62  # taking so many changes nothing, but keeps neighbours from being fused


@dataclass(frozen=True)
class Repairs:
    """How to repair transformations that would make ranks differ."""

    split: RowSplit
    seed: int  # for shuffles without one

    def needed_by(self, transformation: Transformation) -> bool:
        """Return whether a transformation has to be rebuilt though its inputs stay. Local."""
        has_shared_file = bool(transformation.cache_file and self.split.size > 1)
        is_different = transformation.needs_seed or transformation.is_nondeterministic
        return is_different or has_shared_file or transformation.freezes_order

    def rebuild(
        self, transformation: Transformation, inputs: list[tf.data.Dataset], seed: int | None = None
    ) -> tf.data.Dataset:
        """Rebuild a transformation on other inputs, with its repairs. Local."""
        rebuilt = rebuild(transformation.dataset, inputs, self._changes(seed))
        return read_one_ahead(rebuilt) if transformation.freezes_order else rebuilt

    def rebuild_with_numbers(
        self, transformation: Transformation, branch: Branch, rows: tf.data.Dataset
    ) -> tf.data.Dataset:
        """Rebuild a transformation on picked rows, with its repairs. Local."""
        rebuilt = rebuild_with_numbers(transformation.dataset, branch, rows, self._changes())
        return read_one_ahead(rebuilt) if transformation.freezes_order else rebuilt

    def _changes(self, seed: int | None = None) -> Changes:
        rank, size = self.split.rank, self.split.size
        suffix = f".rank{rank}of{size}" if size > 1 else ""
        return Changes(self.seed if seed is None else seed, suffix, rank)


@dataclass(frozen=True)
class Rebuilder:
    """Builder of pipelines up to a transformation."""

    # Whatever needs no change is the user's own object, so that caches and the state of shuffles
    # live on from one call to the next.

    repairs: Repairs
    # its transformations are left out, since they come after the pick
    pushdown: Pushdown = field(default_factory=Pushdown)

    def build(self, last: Transformation) -> tf.data.Dataset:
        """Build the pipeline up to a transformation. Local."""
        # Where a transformation that joins samples is left out, there are windows of samples.
        return self._build(last, assign_seeds(last, self.repairs.seed), {})

    def _build(
        self,
        transformation: Transformation,
        seeds: Mapping[int, int],
        done: dict[int, tf.data.Dataset],
    ) -> tf.data.Dataset:
        """Build up to a transformation; a dataset that feeds several branches stays one object."""
        if any(moved.transformation is transformation for moved in self.pushdown.moved):
            return _without(transformation, self._build(transformation.inputs[0], seeds, done))
        if not transformation.can_be_rebuilt:
            return transformation.dataset
        if transformation.identity not in done:
            inputs = [self._build(upstream, seeds, done) for upstream in transformation.inputs]
            seed = seeds[transformation.identity]
            done[transformation.identity] = self._build_on(transformation, inputs, seed)
        return done[transformation.identity]

    def _build_on(
        self, transformation: Transformation, inputs: list[tf.data.Dataset], seed: int
    ) -> tf.data.Dataset:
        old = [upstream.dataset for upstream in transformation.inputs]
        changed = any(new is not own for new, own in zip(inputs, old, strict=True))
        if not changed and not self.repairs.needed_by(transformation):
            return transformation.dataset
        if transformation in self.pushdown.apart and transformation.kind is Kind.ARRANGE:
            inputs = [inputs[0].take(_MORE_THAN_ALL)]
        return self.repairs.rebuild(transformation, inputs, seed)


def _without(transformation: Transformation, source: tf.data.Dataset) -> tf.data.Dataset:
    if transformation.kind not in JOINS_SAMPLES:
        return source
    batch = transformation.batch
    assert batch is not None
    return source.window(batch.batch_size, drop_remainder=batch.drop_remainder)
