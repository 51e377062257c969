"""Which seed each shuffle and source of random numbers gets that has none. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

from tnt_data.pipeline import Kind, Step


def assign_seeds(last: Step, seed: int) -> Mapping[int, int]:
    """Seeds for all steps of a pipeline that can be repeated, by their `Step.identity`. Local.

    Steps in a row share one seed. Branches that are merged get `seed`, `seed + 1`, ... if they lack
    seeds, so that their shuffles stay independent: with the same seed, a zip of two shuffles of the
    same samples would pair every sample with itself. A dataset that feeds several branches is one
    object, and has the seed of the first of them.

    Args:
        last: Last step of the pipeline.
        seed: The first seed.
    """
    seeds: dict[int, int] = {}
    _assign(last, seed, seeds)
    return seeds


def _assign(step: Step, seed: int, seeds: dict[int, int]) -> None:
    if not step.can_be_rebuilt or step.identity in seeds:
        return
    for feeding in step.inputs:
        _assign(feeding, seed, seeds)
        if step.kind is Kind.MERGE and any(one.needs_seed for one in feeding.walk()):
            seed += 1
    seeds[step.identity] = seed
