"""Assign seeds to shuffles and sources of random numbers that have none. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

from tnt_data.description.transformation import Kind, Transformation


def assign_seeds(last: Transformation, seed: int) -> Mapping[int, int]:
    """Return seeds for all transformations that can be rebuilt, by their `identity`. Local."""
    # Transformations in a row share one seed. Branches that are merged get `seed`, `seed + 1`, ...
    # if they lack seeds, so that their shuffles stay independent: with the same seed, a zip of two
    # shuffles of the same samples would pair every sample with itself. A dataset that feeds several
    # branches is one object, and has the seed of the first of them.
    seeds: dict[int, int] = {}
    _assign(last, seed, seeds)
    return seeds


def _assign(transformation: Transformation, seed: int, seeds: dict[int, int]) -> None:
    if not transformation.can_be_rebuilt or transformation.identity in seeds:
        return
    for upstream in transformation.inputs:
        _assign(upstream, seed, seeds)
        if transformation.kind is Kind.MERGE and any(one.needs_seed for one in upstream.walk()):
            seed += 1
    seeds[transformation.identity] = seed
