"""Input that gives others each time it is read: one rank reads it as plain Keras does."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, restarted, results_of, samples

import tnt_keras

SIZES = (5, 3, 1, 6, 4)  # of batches, in turn; some ranks have no sample of the third
STEPS = len(SIZES)


def _noise() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    step = 0
    while True:
        x, y = samples(SIZES[step % STEPS], seed=step)
        yield x + np.random.normal(size=x.shape).astype("float32"), y
        step += 1


def _noise_of_one_pass() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    noise = _noise()
    yield from (next(noise) for _ in np.random.permutation(STEPS))


def _noise_with_a_gap() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for step, rows in enumerate((5, 0, 3)):
        x, y = samples(rows, seed=step)
        yield x + np.random.normal(size=x.shape).astype("float32"), y


class Noise(keras.utils.PyDataset):
    """Batches with noise, drawn anew for each epoch and each batch."""

    def __init__(self, length: int | None = STEPS, **workers: Any) -> None:
        super().__init__(**workers)
        self.order = np.arange(STEPS)
        self.length = length
        self.made: dict[int, Any] = {}

    @property
    def num_batches(self) -> int | None:
        return self.length

    def __getitem__(self, index: int) -> Any:
        x, y = samples(SIZES[self.order[index % STEPS]], seed=index)
        self.made[index] = x + np.random.normal(size=x.shape).astype("float32"), y
        return self.made[index]

    def on_epoch_end(self) -> None:
        if self.length is not None:  # else the next batches are being made
            self.order = np.random.permutation(STEPS)


class WeightedNoise(Noise):
    """The batches with sample weights."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x, y, np.random.uniform(0.1, 3.0, len(y)).astype("float32")


def _draw(x: np.ndarray) -> np.ndarray:
    return x + np.random.normal(size=x.shape).astype("float32")


def _drawn_in_a_dataset() -> tf.data.Dataset:
    def draw(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.ensure_shape(tf.numpy_function(_draw, [x], tf.float32), x.shape), y

    return tf.data.Dataset.from_tensor_slices(samples(17)).map(draw).batch(5)


def _dataset_of_a_generator() -> tf.data.Dataset:
    spec = (tf.TensorSpec([None, 10]), tf.TensorSpec([None], tf.int32))
    return tf.data.Dataset.from_generator(_noise_of_one_pass, output_signature=spec)


def _of_grain(kind: str) -> Any:
    grain = importlib.import_module("grain")
    rows = [tuple(array[i] for array in samples(17)) for i in range(17)]
    if kind == "DataLoader":
        sampler = grain.samplers.IndexSampler(17, shuffle=True, seed=1, num_epochs=1)
        operations = [grain.transforms.Batch(5)]
        return grain.DataLoader(data_source=rows, sampler=sampler, operations=operations)
    seed_of_rank = 3 + (tnt_keras.get_rank() if kind == "MapDataset" else 0)
    batches = grain.MapDataset.source(rows).shuffle(seed=seed_of_rank).batch(5)
    return batches if kind == "MapDataset" else batches.to_iter_dataset()


def _of_torch() -> Any:
    torch = importlib.import_module("torch")
    torch.manual_seed(5 + tnt_keras.get_rank())
    rows = torch.utils.data.TensorDataset(*map(torch.tensor, samples(17)))
    return torch.utils.data.DataLoader(rows, batch_size=5, shuffle=True)


class Slowly(keras.callbacks.Callback):
    """Waits after each step, so that what is read ahead is all there is room for."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.1)

    on_test_batch_end = on_train_batch_end


FITS: dict[str, Callable[..., Any]] = {
    "generator without end": lambda fit, **more: fit(_noise(), steps_per_epoch=4, **more),
    "generator": lambda fit, **more: fit(_noise_of_one_pass(), **(more | {"epochs": 1})),
    "generator with an empty batch": lambda fit, **more: fit(
        _noise_with_a_gap(), **(more | {"epochs": 1})
    ),
    "PyDataset": lambda fit, **more: fit(Noise(), **more),
    "PyDataset without end": lambda fit, **more: fit(Noise(None), steps_per_epoch=3, **more),
    "class weights": lambda fit, **more: fit(Noise(), class_weight={0: 2.0, 2: 0.3}, **more),
    "sample weights": lambda fit, **more: fit(WeightedNoise(), shuffle=False, **more),
    "numpy_function": lambda fit, **more: fit(_drawn_in_a_dataset(), **more),
    "from_generator": lambda fit, **more: fit(
        _dataset_of_a_generator(), steps_per_epoch=STEPS, **(more | {"epochs": 1})
    ),
    "MapDataset": lambda fit, **more: fit(_of_grain("MapDataset"), **more),
    "IterDataset": lambda fit, **more: fit(_of_grain("IterDataset"), **more),
    "DataLoader": lambda fit, **more: fit(_of_grain("DataLoader"), **more),
    "DataLoader of torch": lambda fit, **more: fit(_of_torch(), **more),
    "IterDataset read by all": lambda fit, **more: fit(
        _of_grain("IterDataset"), **(more | _reading_by_all(fit))
    ),
    "validation by a generator": lambda fit, **more: fit(
        Noise(),
        validation_data=_noise(),
        validation_steps=3,
        callbacks=[Slowly()],
        **(more | {"epochs": 3}),
    ),
}


def _reading_by_all(fit: Callable[..., Any]) -> dict[str, str]:
    is_distributed = isinstance(getattr(fit, "__self__", None), tnt_keras.Model)
    return {"tnt_read": "all"} if is_distributed else {}


LIBRARIES = {
    "MapDataset": "grain",
    "IterDataset": "grain",
    "DataLoader": "grain",
    "DataLoader of torch": "torch",
    "IterDataset read by all": "grain",
}
"""What must be installed for some kinds."""


def seed(rank: int) -> None:
    """Gives each rank other random numbers; those of the first one are the serial ones."""
    np.random.seed(1 + rank)
    random.seed(2 + rank)


def train(distributed: bool, kind: str) -> dict[str, Any]:
    """Trains on an input that draws from the generators of Python and NumPy."""
    model = restarted(classifier, distributed)
    seed(tnt_keras.get_rank())
    return results_of(model, FITS[kind](model.fit, epochs=2, verbose=0))


def drawn_after_calls(distributed: bool) -> dict[str, Any]:
    """Draws after each call, in which one rank has read and drawn."""
    model = restarted(classifier, distributed)
    seed(tnt_keras.get_rank())
    model.fit(_noise_of_one_pass(), verbose=0)
    drawn = {"fit": np.random.normal(size=3)}
    model.fit(Noise(), epochs=2, verbose=0)
    drawn["PyDataset"] = np.random.normal(size=3)
    model.evaluate(_noise_of_one_pass(), verbose=0)
    drawn["evaluate"] = np.random.normal(size=3)
    model.predict(_noise_of_one_pass(), verbose=0)
    return drawn | {"predict": np.random.normal(size=3)}


def evaluated_where_rank_0_has_read() -> list[float]:
    """Losses of calls with one generator, which rank 0 is told to read for the first one alone."""
    model = restarted(classifier, True)
    batches = (samples(5, seed=step) for step in itertools.count())
    model.fit(batches, steps_per_epoch=2, verbose=0, tnt_read="rank 0")
    return [model.evaluate(batches, steps=2, verbose=0)[0] for _ in range(2)]


def drawn_after_an_error(distributed: bool) -> dict[str, Any]:
    """Draws after a generator has failed that rank 0 reads."""
    model = restarted(classifier, distributed)
    seed(tnt_keras.get_rank())
    with contextlib.suppress(Exception):
        model.fit(_fail_after(2), verbose=0)
    return {"drawn": np.random.normal(size=3), "by Python": random.random()}


def _fail_after(steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    noise = _noise()
    yield from (next(noise) for _ in np.random.permutation(steps))
    raise ValueError(f"{random.random()} is what it ends with")


def with_a_generator_of_numpy() -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """Weights of a training on noise of a generator without a seed, and of plain Keras on it."""
    model = restarted(classifier, True)
    rng, made = np.random.default_rng(), []

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for step in range(3):
            x, y = samples(5, seed=step)
            made.append((x + rng.normal(size=x.shape).astype("float32"), y))
            yield made[-1]

    model.fit(batches(), verbose=0)
    if tnt_keras.get_rank() > 0:
        return model.get_weights(), None
    plain = restarted(classifier, False)
    plain.fit((batch for batch in made), verbose=0)
    return model.get_weights(), plain.get_weights()


def noise_of_structures(distributed: bool) -> dict[str, Any]:
    """Trains and predicts with dictionaries of dense, ragged and sparse batches."""
    keras.utils.set_random_seed(4)
    dense, sparse = keras.Input((4,), name="x"), keras.Input((6,), name="s", sparse=True)
    ragged = keras.Input((None,), name="r", ragged=True, dtype="int64")
    joined = [keras.layers.Dense(3)(dense), keras.layers.Dense(3)(sparse)]
    joined.append(keras.layers.Lambda(_mean_of_ragged)(ragged))
    outputs = {"a": keras.layers.Dense(1, name="a")(keras.layers.Add()(joined))}
    outputs["b"] = keras.layers.Dense(2, name="b")(joined[0])
    model = keras.Model({"x": dense, "s": sparse, "r": ragged}, outputs)
    model = tnt_keras.Model(model) if distributed else model
    model.compile(keras.optimizers.SGD(0.01), {"a": "mse", "b": "mae"})
    by_hand = {"verbose": 0, **({"tnt_read": "rank 0"} if distributed else {})}
    history = model.fit(_structures(), steps_per_epoch=STEPS, epochs=2, **by_hand)
    predicted = model.predict(_structures(), steps=3, **by_hand)
    return results_of(model, history) | {
        f"predict {name}": np.asarray(value) for name, value in predicted.items()
    }


def _mean_of_ragged(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.reduce_mean(tf.cast(ragged, tf.float32) / 9.0, axis=1, keepdims=True)


def _structures() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    step, rng = 0, np.random.default_rng(4 + tnt_keras.get_rank())
    while True:
        rows = SIZES[step % STEPS]
        x = rng.normal(size=(rows, 6)).astype("float32")
        yield (
            {
                "x": x[:, :4],
                "s": tf.sparse.from_dense(np.where(x > 0, x, 0)),
                "r": tf.ragged.constant(
                    [rng.integers(0, 9, 1 + row % 3).tolist() for row in range(rows)],
                    dtype=tf.int64,
                ),
            },
            {"a": x[:, :1], "b": x[:, 1:3]},
        )
        step += 1


def with_workers(workers: int) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """Weights of a training by workers, and on rank 0 of plain Keras on what they have made."""
    batches = Noise(max_queue_size=2, workers=workers)
    model = restarted(classifier, True)
    model.fit(batches, shuffle=False, verbose=0)
    if tnt_keras.get_rank() > 0:
        return model.get_weights(), None
    plain = restarted(classifier, False)
    made = (batches.made[index] for index in range(STEPS))
    plain.fit(made, steps_per_epoch=STEPS, shuffle=False, verbose=0)
    return model.get_weights(), plain.get_weights()


def sums_of_own_loop() -> list[list[float]]:
    """What a rank is given in two passes over a dataset of random numbers, and its length."""
    seed(tnt_keras.get_rank())
    data = tnt_keras.data.distribute(_drawn_in_a_dataset())
    assert len(data) == 4
    return [[float(tf.reduce_sum(x)) for x, _ in data] for _ in range(2)]


class _Damaged(Noise):
    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise OSError("batch 3 is damaged")
        return super().__getitem__(index)


class _OtherRows(Noise):
    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return (np.concatenate([x, x[:1]]), y) if index == 3 else (x, y)


class _Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = batch == 1 and tnt_keras.get_rank() == 1


def _end_early() -> Iterator[Any]:
    noise = _noise()
    yield from (next(noise) for _ in np.random.permutation(3))


ENDS: dict[str, Callable[[Any], Any]] = {
    "damaged": lambda fit: fit(_Damaged(), shuffle=False, verbose=0),
    "damaged by a worker": lambda fit: fit(_Damaged(workers=2), shuffle=False, verbose=0),
    "not there": lambda fit: fit((np.random.random() for _ in ()), verbose=0),
    "other rows": lambda fit: fit(_OtherRows(), shuffle=False, verbose=0),
    "early": lambda fit: fit(_end_early(), steps_per_epoch=5, epochs=2, verbose=0),
    "stopped": lambda fit: fit(
        _noise(), steps_per_epoch=5, epochs=2, verbose=0, callbacks=[_Stop()]
    ),
}


def end_of(case: str) -> tuple[str, int, list[float]]:
    """The error of a training, its steps, and losses of another one, in which ranks go on."""
    model = restarted(classifier, True)
    error = ""
    try:
        ENDS[case](model.fit)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    steps = int(model.optimizer.iterations.numpy())
    return error, steps, model.fit(_noise(), steps_per_epoch=3, verbose=0).history["loss"]
