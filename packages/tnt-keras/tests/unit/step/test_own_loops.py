"""Optimizers of Keras are watched as long as there is a distributed model."""

from __future__ import annotations

import gc

import keras

from tnt_keras.step.owner import notice_own_loops


def test_optimizers_are_those_of_keras_when_the_last_distributed_model_is_gone() -> None:
    plain_apply = keras.optimizers.Optimizer.apply
    first, second = keras.Sequential(), keras.Sequential()
    for model in (first, second, first):
        notice_own_loops(model)
    assert keras.optimizers.Optimizer.apply is not plain_apply
    del model, first
    gc.collect()
    assert keras.optimizers.Optimizer.apply is not plain_apply
    del second
    gc.collect()
    assert keras.optimizers.Optimizer.apply is plain_apply
    third = keras.Sequential()
    notice_own_loops(third)
    assert keras.optimizers.Optimizer.apply is not plain_apply
