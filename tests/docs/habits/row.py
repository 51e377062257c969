"""Check the code of a row: note what looks at it, run it, compare with plain Keras."""

import functools
import os
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt

HABITS = {}
"""By the left cell of the row."""

NUM_SAMPLES, BATCH_SIZE = 21, 6
"""The last batch has 3 samples: 2 for rank 0 and 1 for rank 1."""

RATE = 0.1


def habit(*lines):
    """Note that a function looks at the rows with these left cells."""

    def note(function):
        for line in lines:
            assert line not in HABITS
            HABITS[line] = function
        return function

    return note


def check(line, code, folder):
    """Run the check of a row on this rank, in an empty folder that all ranks share."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        HABITS[line](code)
    finally:
        os.chdir(before)


def samples():
    generator = np.random.default_rng(3)
    x = generator.normal(size=(NUM_SAMPLES, 4)).astype("float32")
    return x, (x[:, :2] ** 2).astype("float32")


def dataset(batch_size=BATCH_SIZE):
    data = tf.data.Dataset.from_tensor_slices(samples())
    return data if batch_size is None else data.batch(batch_size)


def plain_model(*more):
    keras.utils.set_random_seed(7)
    return keras.Sequential([keras.Input((4,)), *more, keras.layers.Dense(2)])


def compiled(model, optimizer=None, **options):
    """A compiled model, which runs eagerly: four steps take less time than a graph."""
    options = {"run_eagerly": True, **options}
    model.compile(optimizer or keras.optimizers.SGD(RATE), "mse", **options)
    return model


def distributed(*more, **options):
    return compiled(tnt.Model(plain_model(*more)), **options)


def trained(model, data=None, **options):
    """Train for one epoch; weights, losses and metrics."""
    history = model.fit(dataset() if data is None else data, verbose=0, **options)
    return model.get_weights(), history.history


@functools.cache
def serial():
    """What plain Keras gives."""
    return trained(compiled(plain_model()))


def assert_same(found, expected):
    """Weights and logs are equal to rounding, and the same bits on all ranks."""
    (weights, logs), (expected_weights, expected_logs) = found, expected
    for one, other in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert logs.keys() == expected_logs.keys()
    for name, values in logs.items():
        np.testing.assert_allclose(values, expected_logs[name], rtol=1e-5, atol=1e-6)
    of_ranks = tnt.allgather_object((weights, logs))
    assert all(np.array_equal(a, b) for a, b in zip(of_ranks[0][0], of_ranks[1][0], strict=True))
    assert of_ranks[0][1] == of_ranks[1][1]


def run(code, **given):
    """Run the code of a cell; the names it knows, and its value if it is an expression."""
    names = {"keras": keras, "np": np, "tf": tf, "tnt": tnt, **given}
    try:
        names["value"] = eval(code, names)
    except SyntaxError:
        exec(code, names)
    return names


def value(code, **given):
    return run(code, **given)["value"]
