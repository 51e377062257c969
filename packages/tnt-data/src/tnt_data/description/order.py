"""Describe which transformations decide the order of samples. No TensorFlow."""

from __future__ import annotations

from tnt_data.description.transformation import JOINS_SAMPLES, Kind, Trait, Transformation

_ORDERS = JOINS_SAMPLES | {Kind.SHUFFLE, Kind.RANDOM, Kind.ARRANGE}


def order_of(last: Transformation) -> str:
    """Name what decides which samples come when: `"shuffle(9) with seed 3, batch(4)"`. Local."""
    return ", ".join(_with_seed(one) for one in last.walk() if _decides_order(one))


def _decides_order(transformation: Transformation) -> bool:
    return transformation.kind in _ORDERS and Trait.KEEPS_SEQUENCE not in transformation.traits


def _with_seed(transformation: Transformation) -> str:
    if not transformation.seeds:
        return transformation.text
    return f"{transformation.text} with seed {transformation.seeds}"
