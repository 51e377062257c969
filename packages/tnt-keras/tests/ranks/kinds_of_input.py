"""The same samples in all forms that Keras takes, trained with plain Keras and with Tarantella."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from features import classifier, samples, weights_of

import tnt_data
import tnt_keras
from tnt_keras import python_feed
from tnt_keras.patching import replaced
from tnt_keras.python_batches import NumberedBatches

NUM_SAMPLES, BATCH_SIZE = 22, 5
STEPS = -(-NUM_SAMPLES // BATCH_SIZE)


class Batches(keras.utils.PyDataset):
    """The batches, with a note of the rows that were made."""

    def __init__(self, **workers: Any) -> None:
        super().__init__(**workers)
        self.made: list[int] = []

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return self._rows(range(NUM_SAMPLES)[index * BATCH_SIZE : (index + 1) * BATCH_SIZE])

    def _rows(self, rows: range) -> tuple[np.ndarray, ...]:
        self.made += rows
        x, y = samples(NUM_SAMPLES)
        return x[rows], y[rows], weights_of(NUM_SAMPLES)[rows]


class BatchesWithoutEnd(Batches):
    """The batches, again and again."""

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return super().__getitem__(index % STEPS)


class RowsOfBatches(Batches):
    """Batches of which single rows can be made."""

    def num_samples(self, index: int) -> int:
        return min(BATCH_SIZE, NUM_SAMPLES - index * BATCH_SIZE)

    def get_rows(self, index: int, rows: slice) -> tuple[np.ndarray, ...]:
        whole = range(NUM_SAMPLES)[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
        return self._rows(whole[rows])


def generator() -> Iterator[tuple[np.ndarray, ...]]:
    """The batches, again and again."""
    batches = Batches()
    while True:
        yield from (batches[index] for index in range(STEPS))


def dataset() -> Any:
    """The samples, one by one."""
    x, y = samples(NUM_SAMPLES)
    return tf.data.Dataset.from_tensor_slices((x, y, weights_of(NUM_SAMPLES)))


def arrays() -> tuple[Any, Any, Any]:
    """The samples, all at once."""
    return (*samples(NUM_SAMPLES), weights_of(NUM_SAMPLES))


Fit = Callable[..., Any]


def fit_arrays(fit: Fit, **more: Any) -> Any:
    x, y, weights = arrays()
    return fit(x, y, sample_weight=weights, batch_size=BATCH_SIZE, shuffle=False, **more)


FITS: dict[str, Fit] = {
    "arrays": fit_arrays,
    "dataset without end": lambda fit, **more: fit(
        dataset().batch(BATCH_SIZE).repeat(), steps_per_epoch=STEPS, **more
    ),
    "dataset of unknown length": lambda fit, **more: fit(
        dataset().filter(lambda x, y, w: True).batch(BATCH_SIZE), **more
    ),
    "decoded": lambda fit, **more: fit(
        dataset().map(lambda x, y, w: (x + 0.0, y, w), num_parallel_calls=2).batch(BATCH_SIZE),
        **more,
    ),
    "PyDataset": lambda fit, **more: fit(Batches(), shuffle=False, **more),
    "PyDataset with workers": lambda fit, **more: fit(Batches(workers=2), shuffle=False, **more),
    "PyDataset with processes": lambda fit, **more: fit(
        Batches(workers=2, use_multiprocessing=True), shuffle=False, **more
    ),
    "PyDataset without end": lambda fit, **more: fit(
        BatchesWithoutEnd(), steps_per_epoch=STEPS, shuffle=False, **more
    ),
    "rows of a PyDataset": lambda fit, **more: fit(RowsOfBatches(), shuffle=False, **more),
    "generator": lambda fit, **more: fit(generator(), steps_per_epoch=STEPS, shuffle=False, **more),
}


def train(kind: str, distributed: bool, verify: bool = False) -> dict[str, Any]:
    """Trains on one kind of input, which is also the data for validation."""
    model = classifier(
        distributed,
        weighted_metrics=["accuracy"],
        metrics=None,
        steps_per_execution=2 if verify else 1,  # of 5 steps
    )
    more: dict[str, Any] = {"verify_inputs": True} if verify else {}
    if kind == "dataset without end":
        more["validation_steps"] = STEPS
    history = FITS[kind](model.fit, epochs=2, verbose=0, validation_data=_validation(kind), **more)
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


def _validation(kind: str) -> Any:
    if "PyDataset" in kind or kind == "arrays":
        return RowsOfBatches() if "rows" in kind else Batches()
    samples_of_all = dataset()
    if "unknown length" in kind:
        samples_of_all = samples_of_all.filter(lambda x, y, w: True)
    batches = samples_of_all.batch(BATCH_SIZE)
    return batches.repeat() if "without end" in kind else batches


def evaluate_and_predict(kind: str, distributed: bool) -> dict[str, Any]:
    """Evaluates and predicts with one kind of input."""
    model = classifier(distributed, weighted_metrics=["accuracy"], metrics=None)
    data: dict[str, Callable[[], Any]] = {
        "PyDataset": Batches,
        "rows of a PyDataset": RowsOfBatches,
        "generator": generator,
    }
    return {
        "evaluate": model.evaluate(data[kind](), steps=STEPS, verbose=0),
        "predict": model.predict(data[kind](), steps=STEPS, verbose=0),
    }


class BatchesWithoutWeights(Batches):
    """Inputs and targets only."""

    def _rows(self, rows: range) -> tuple[np.ndarray, ...]:
        return super()._rows(rows)[:2]


def class_weights(distributed: bool, kind: str) -> dict[str, Any]:
    """`class_weight` with inputs that are no dataset."""
    model, (x, y) = classifier(distributed), samples(NUM_SAMPLES)
    inputs: dict[str, tuple[Any, ...]] = {
        "arrays": (x, y),
        "one-hot": (x, np.eye(3, dtype="float32")[y]),
        "PyDataset": (BatchesWithoutWeights(),),
    }
    if kind == "one-hot":
        model.compile("sgd", "categorical_crossentropy")
    history = model.fit(
        *inputs[kind],
        batch_size=BATCH_SIZE if kind in ("arrays", "one-hot") else None,
        class_weight={0: 0.2, 1: 1.5, 2: 4.0},
        shuffle=False,
        verbose=0,
    )
    return {"weights": [np.asarray(w) for w in model.get_weights()], "history": history.history}


def structures(distributed: bool, kind: str) -> dict[str, Any]:
    """A model of two inputs and two targets: lists or dictionaries of arrays and tensors."""
    keras.utils.set_random_seed(21)
    inputs = [keras.Input((10,), name="a"), keras.Input((1,), name="b")]
    joined = keras.layers.Concatenate()(inputs)
    outputs = [keras.layers.Dense(1, name="c")(joined), keras.layers.Dense(2, name="d")(joined)]
    if kind == "dictionaries":
        outputs = dict(zip("cd", outputs, strict=True))
    model = keras.Model(inputs, outputs)
    if distributed:
        model = tnt_keras.Model(model)
    losses = {"c": "mse", "d": "mae"}
    model.compile("sgd", losses if kind == "dictionaries" else list(losses.values()))
    x, y = samples(NUM_SAMPLES)
    a, b = [tf.constant(x), y[:, None].astype("float32")], [y[:, None] / 3.0, tf.constant(x[:, :2])]
    if kind == "dictionaries":
        a, b = dict(zip("ab", a, strict=True)), dict(zip("cd", b, strict=True))
    history = model.fit(a, b, batch_size=BATCH_SIZE, shuffle=False, validation_split=0.3, verbose=0)
    return _results(model, history, model.evaluate(a, b, batch_size=7, verbose=0)) | {
        "predict": keras.tree.flatten(model.predict(a, batch_size=7, verbose=0))
    }


def unbatched(distributed: bool) -> dict[str, Any]:
    """Unbatched datasets in `fit`, for validation, in `evaluate` and in `predict`."""
    model = classifier(distributed, weighted_metrics=["accuracy"], metrics=None)

    def data() -> Any:
        return dataset() if distributed else dataset().batch(6)

    micro: dict[str, Any] = {"tnt_micro_batch_size": 2} if distributed else {}
    validation = {"tnt_validation_micro_batch_size": 2} if distributed else {}
    history = model.fit(data(), validation_data=data(), epochs=2, verbose=0, **micro, **validation)
    return _results(model, history, model.evaluate(data(), verbose=0, **micro)) | {
        "predict": model.predict(data(), verbose=0, **micro)
    }


def arrays_with_micro_batches(distributed: bool) -> dict[str, Any]:
    """Arrays, whose batch sizes are given for each rank."""
    model, (x, y) = classifier(distributed), samples(NUM_SAMPLES)
    size: dict[str, Any] = {"batch_size": 6, "validation_batch_size": 3}
    if distributed:
        size = {"batch_size": 6, "tnt_validation_micro_batch_size": 1}
    history = model.fit(x, y, validation_data=(x, y), shuffle=False, verbose=0, **size)
    micro = {"tnt_micro_batch_size": 1} if distributed else {"batch_size": 3}
    return _results(model, history, model.evaluate(x, y, verbose=0, **micro))


def rows_made() -> list[int]:
    """Rows that a rank makes for one epoch, without the batches that Keras looks at first."""
    model, batches = classifier(True), RowsOfBatches()
    model.fit(batches, epochs=1, verbose=0, shuffle=False)
    return sorted(set(batches.made))


def shuffled(kind: str) -> list[np.ndarray]:
    """Trains with `shuffle=True`, Keras' default."""
    model = classifier(True, weighted_metrics=["accuracy"], metrics=None)
    if kind == "arrays":
        x, y, weights = arrays()
        model.fit(x, y, sample_weight=weights, batch_size=BATCH_SIZE, epochs=2, verbose=0)
    else:
        model.fit(Batches(), epochs=2, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


def generators_that_go_on() -> list[float]:
    """Losses of several calls with the same two generators, of which ranks compare what they read.

    Keras reads ahead, in a thread of its own: that must not put ranks out of step.
    """
    model, train, test = classifier(True), generator(), generator()
    losses: list[float] = []
    for steps in (1, 3):
        history = model.fit(
            train,
            epochs=3,
            steps_per_epoch=steps,
            validation_data=test,
            validation_steps=2,
            shuffle=False,
            verbose=0,
            verify_inputs=True,
        )
        losses += history.history["loss"] + history.history["val_loss"]
        losses += [model.evaluate(test, steps=steps, verbose=0, verify_inputs=True)[0]]
    return losses


def own_samples(distributed: bool, kind: str = "dataset") -> dict[str, Any]:
    """Trains and evaluates on batches of 6 of 24 samples, which ranks have shared by themselves."""
    x, y = samples(24)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
    model = classifier(distributed)
    if not distributed:
        history = model.fit(batches, epochs=2, verbose=0, validation_data=batches)
        return _results(model, history, model.evaluate(batches, verbose=0))
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    parts: dict[str, Callable[[], Any]] = {
        "dataset": lambda: batches.unbatch().shard(size, rank).batch(6 // size),
        "generator": lambda: _generated(x[rank::size], y[rank::size], 6 // size),
        "PyDataset": lambda: OwnBatches(x[rank::size], y[rank::size], 6 // size),
        "micro-batches": lambda: tnt_data.distribute(batches, rank, size),
    }
    part = parts[kind]
    manual = {"tnt_distribute_dataset": False}
    history = model.fit(
        part(),
        epochs=2,
        steps_per_epoch=4 if kind == "generator" else None,
        shuffle=False,
        verbose=0,
        validation_data=part() if kind != "generator" else parts["dataset"](),
        tnt_distribute_validation_dataset=False,
        **manual,
    )
    return _results(model, history, model.evaluate(part(), steps=4, verbose=0, **manual))


class OwnBatches(keras.utils.PyDataset):
    """Batches of some samples."""

    def __init__(self, x: np.ndarray, y: np.ndarray, batch_size: int) -> None:
        super().__init__()
        self._samples, self._batch_size = (x, y), batch_size

    def __len__(self) -> int:
        return len(self._samples[0]) // self._batch_size

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        begin = index * self._batch_size
        return tuple(array[begin : begin + self._batch_size] for array in self._samples)


def _generated(x: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        for begin in range(0, len(x), size):
            yield x[begin : begin + size], y[begin : begin + size]


def _results(model: Any, history: Any, evaluated: Any) -> dict[str, Any]:
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "history": history.history,
        "evaluate": evaluated,
    }


def own_predictions() -> tuple[np.ndarray, np.ndarray]:
    """Predictions for as many samples as this rank likes, and those of plain Keras for them."""
    x, _ = samples(3 + 4 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices(x).batch(2)
    own = classifier(True).predict(data, verbose=0, tnt_distribute_dataset=False)
    return own, classifier(False).predict(x, verbose=0)


def warnings_of(case: str) -> list[str]:
    """Messages of a run whose input ranks may not share as they should."""
    logger, handler = logging.getLogger("tnt_keras"), _Collect(logging.WARNING)
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        SUSPICIOUS[case]()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return handler.messages


class _Collect(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class RandomBatches(Batches):
    """Batches with noise that nothing seeds."""

    def _rows(self, rows: range) -> tuple[np.ndarray, ...]:
        x, *others = super()._rows(rows)
        return x + np.random.normal(size=x.shape).astype("float32"), *others


def _random_generator() -> Iterator[tuple[np.ndarray, ...]]:
    yield from (Batches()[index] for index in np.random.permutation(STEPS))


def _fit_other_arrays(verify_inputs: bool = False) -> None:
    x, y = samples(20, seed=tnt_keras.get_rank())
    classifier(True).fit(x, y, batch_size=5, verbose=0, verify_inputs=verify_inputs)


def _fit_own_samples() -> None:
    x, y = samples(4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
    model = classifier(True)
    model.fit(data, verbose=0, tnt_distribute_dataset=False, verify_inputs=True)


SUSPICIOUS: dict[str, Callable[[], Any]] = {
    "other arrays": _fit_other_arrays,
    "random PyDataset": lambda: classifier(True).fit(RandomBatches(), shuffle=False, verbose=0),
    "random generator": lambda: classifier(True).fit(_random_generator(), verbose=0, shuffle=False),
    "own samples": _fit_own_samples,
    "rows of a PyDataset": lambda: classifier(True).fit(
        RowsOfBatches(), shuffle=False, verbose=0, verify_inputs=True
    ),
    "nothing": lambda: classifier(True).fit(Batches(), shuffle=False, verbose=0),
}


def error_of(case: str) -> tuple[str, str]:
    """Makes a mistake after which ranks cannot go on together."""
    try:
        MISTAKES[case]()
        result = ("", "no error")
    except Exception as error:
        result = (type(error).__name__, str(error))
    # Threads of tf.data that call Python must end before the interpreter does.
    gc.collect()
    return result


def _more_batches_on_rank_0(num_batches: int) -> Any:
    x, y = samples(5)
    extra = 1 - tnt_keras.get_rank()
    return [(x, y)] * (num_batches + extra)


def _unequal_own_datasets() -> None:
    x, y = samples(20 - 5 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    classifier(True).fit(data, verbose=0, tnt_distribute_dataset=False)


def _unequal_own_datasets_of_unknown_length() -> None:
    x, y = samples(20 - 5 * tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda x, y: True).batch(5)
    classifier(True).fit(data, verbose=0, tnt_distribute_dataset=False)


def _unequal_evaluation() -> None:
    batches = (batch for batch in _more_batches_on_rank_0(2))
    classifier(True).evaluate(batches, verbose=0)


def _other_samples_on_rank_1() -> None:
    x, y = samples(20, seed=tnt_keras.get_rank())
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
    classifier(True).fit(data, verbose=0, verify_inputs=True)


def _other_order_in_the_second_epoch() -> None:
    x, y = samples(20)
    swaps = tf.Variable(0, dtype=tf.int64)

    def number(i: Any) -> Any:
        return tf.data.Dataset.from_tensors(tf.where((swaps > 0) & (i < 2), 1 - i, i))

    data = tf.data.Dataset.range(20).flat_map(number)
    data = data.map(lambda i: (tf.gather(x, i), tf.gather(y, i)), num_parallel_calls=2).batch(5)
    swap = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: swaps.assign(epoch * tnt_keras.get_rank())
    )
    classifier(True).fit(data, epochs=2, verbose=0, verify_inputs=True, callbacks=[swap])


def _other_seed_on_rank_1() -> None:
    x, y = samples(20)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(20, seed=tnt_keras.get_rank())
    classifier(True).fit(data.batch(5), verbose=0)


def _shared_twice() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20))
    own = data.shard(tnt_keras.get_size(), tnt_keras.get_rank())
    classifier(True).fit(own.batch(5), verbose=0)


def _already_shared() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20)).batch(5)
    part = tnt_data.distribute(data, tnt_keras.get_rank(), tnt_keras.get_size())
    classifier(True).fit(part, verbose=0)


def _other_length_of_a_py_dataset() -> None:
    class Longer(Batches):
        def __len__(self) -> int:
            return STEPS - tnt_keras.get_rank()

    classifier(True).fit(Longer(), shuffle=False, verbose=0)


def _other_order_of_batches_on_rank_1() -> None:
    """As Keras may hand them out if workers make more batches than an epoch has steps."""

    class Reordered(NumberedBatches):
        def __getitem__(self, index: int) -> Any:
            swap = tnt_keras.get_rank() == 1 and index < 2
            return super().__getitem__(1 - index if swap else index)

    with replaced(python_feed, "NumberedBatches", Reordered):
        classifier(True).fit(Batches(), shuffle=False, verbose=0)


def _own_data_with_micro_batch_size() -> None:
    data = tf.data.Dataset.from_tensor_slices(samples(20)).batch(5)
    classifier(True).fit(data, tnt_distribute_dataset=False, tnt_micro_batch_size=5)


MISTAKES: dict[str, Callable[[], None]] = {
    "unequal own datasets": _unequal_own_datasets,
    "unequal own datasets of unknown length": _unequal_own_datasets_of_unknown_length,
    "unequal evaluation": _unequal_evaluation,
    "other samples on rank 1": _other_samples_on_rank_1,
    "other order in the second epoch": _other_order_in_the_second_epoch,
    "other arrays": lambda: _fit_other_arrays(verify_inputs=True),
    "other seed on rank 1": _other_seed_on_rank_1,
    "shared twice": _shared_twice,
    "already shared": _already_shared,
    "other length of a PyDataset": _other_length_of_a_py_dataset,
    "other order of batches": _other_order_of_batches_on_rank_1,
    "own data with micro-batch size": _own_data_with_micro_batch_size,
}
