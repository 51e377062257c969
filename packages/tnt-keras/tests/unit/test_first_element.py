"""A look at the next element of Keras' iterator changes nothing of what follows."""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from packaging.version import Version

from tnt_keras.probe.samples.first_element import FirstElement, kind_of

NUM_SAMPLES, BATCH_SIZE, EPOCHS = 14, 3, 3
STEPS = -(-NUM_SAMPLES // BATCH_SIZE)


def samples() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    x = random.normal(size=(NUM_SAMPLES, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def shuffled() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(samples()).shuffle(NUM_SAMPLES)


def augmented() -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(BATCH_SIZE)
    return data.map(lambda x, y: (x + tf.random.normal(tf.shape(x)), y)).prefetch(2)


def of_unknown_length() -> tf.data.Dataset:
    return shuffled().batch(BATCH_SIZE).filter(lambda x, y: True)


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        rows = slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE)
        return tuple(array[rows] for array in samples())


def generated(ends: bool = False) -> Iterator[tuple[np.ndarray, ...]]:
    while True:
        yield from (Batches()[index] for index in range(STEPS))
        if ends:
            return


def with_no_weights() -> Iterator[tuple[Any, ...]]:
    for x, y in generated():
        yield x, y, None


def parts_of_text() -> tf.data.Dataset:
    """Dictionaries with a ragged, a sparse and a missing component."""
    x, y = samples()

    def element(x: Any, y: Any) -> Any:
        lengths = tf.ones(tf.shape(x)[:1], tf.int64) * 4
        ragged = tf.RaggedTensor.from_row_lengths(tf.reshape(x, [-1]), lengths)
        return {"ragged": ragged, "sparse": tf.sparse.from_dense(x)}, y, None

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH_SIZE).map(element)


class Joined(keras.layers.Layer):
    """Makes one dense tensor of a dictionary; leaves tensors as they are."""

    def call(self, inputs: Any) -> Any:
        if not isinstance(inputs, dict):
            return inputs
        ragged = inputs["ragged"].to_tensor(shape=[None, 4])
        return ragged + tf.sparse.to_dense(inputs["sparse"])


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: dict(zip("xy", samples(), strict=True), shuffle=True),
    "arrays without shuffle": lambda: dict(zip("xy", samples(), strict=True), shuffle=False),
    "shuffled": lambda: {"x": shuffled().batch(BATCH_SIZE)},
    "augmented": lambda: {"x": augmented()},
    "equal batches": lambda: {"x": shuffled().batch(BATCH_SIZE, drop_remainder=True)},
    "unknown length": lambda: {"x": of_unknown_length()},
    "repeated": lambda: {"x": shuffled().repeat().batch(BATCH_SIZE), "steps_per_epoch": 4},
    "part of an epoch": lambda: {"x": shuffled().batch(BATCH_SIZE), "steps_per_epoch": 2},
    "too many steps": lambda: {"x": shuffled().batch(BATCH_SIZE), "steps_per_epoch": 20},
    "generator": lambda: {"x": generated(), "steps_per_epoch": 4},
    "generator with an end": lambda: {"x": generated(ends=True)},
    "generator of None": lambda: {"x": with_no_weights(), "steps_per_epoch": 4},
    "PyDataset": lambda: {"x": Batches(workers=2)},
    "PyDataset in the main thread": lambda: {"x": Batches(), "shuffle": True},
    "structure": lambda: {"x": parts_of_text()},
    "empty": lambda: {"x": shuffled().take(0).batch(BATCH_SIZE)},
    "empty of unknown length": lambda: {"x": of_unknown_length().take(0)},
}


IN_SHORT = {"arrays", "structure", "empty"}


KERAS_TAKES_NONE = pytest.mark.skipif(
    Version(keras.__version__) < Version("3.12"), reason="from Keras 3.12 on samples may be None"
)


def marks(kind: str) -> list[Any]:
    of_versions = [KERAS_TAKES_NONE] if kind == "generator of None" else []
    return of_versions if kind in IN_SHORT else [pytest.mark.thorough, *of_versions]


class Run:
    """A model whose functions show the first element of each epoch, or do not."""

    def __init__(self, looks: bool, **compiled: Any) -> None:
        keras.utils.set_random_seed(5)
        self.model = CountedModel([Joined(), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
        self.model.compile("sgd", "mse", metrics=["mae"], **compiled)
        self.elements: list[Any] = []
        self.losses: list[float] = []
        self._wants = False
        if looks:
            for name in ("train", "test", "predict"):
                getattr(self.model, f"make_{name}_function")()
                function = getattr(self.model, f"{name}_function")
                look = FirstElement(function, self._look, lambda _: self._wants)
                setattr(self.model, f"{name}_function", look)

    def _look(self, element: Any) -> None:
        self._wants = False
        self.elements.append(element)

    def ask(self, *_: Any) -> None:
        self._wants = True

    def note(self, _: int, logs: dict[str, float]) -> None:
        self.losses.append(logs["loss"])

    def fit(self, **data: Any) -> None:
        keras.utils.set_random_seed(5)
        callback = keras.callbacks.LambdaCallback(
            on_epoch_begin=self.ask, on_train_batch_end=self.note
        )
        # Some of the data end too early, for which Keras has a warning.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*(ran out of data|`shuffle=True` was passed)")
            self.model.fit(
                **data,
                epochs=EPOCHS,
                verbose=0,
                callbacks=[callback],
                batch_size=BATCH_SIZE if isinstance(data["x"], np.ndarray) else None,
            )

    def results(self) -> list[np.ndarray]:
        return [np.array(self.losses), *self.model.get_weights()]


class CountedModel(keras.Sequential):
    """A small model that counts how often Python runs its steps: once for each trace."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers)
        self.num_runs = 0

    def train_step(self, data: Any) -> Any:
        self.num_runs += 1
        return super().train_step(data)

    def test_step(self, data: Any) -> Any:
        self.num_runs += 1
        return super().test_step(data)

    def predict_step(self, data: Any) -> Any:
        self.num_runs += 1
        return super().predict_step(data)


def assert_same_bits(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(results) == len(expected)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


@pytest.mark.parametrize(
    ("kind", "compiled"),
    [
        *(pytest.param(kind, {"steps_per_execution": 3}, marks=marks(kind)) for kind in KINDS),
        pytest.param("shuffled", {}, marks=pytest.mark.thorough),
        ("too many steps", {}),
        pytest.param("generator of None", {}, marks=[pytest.mark.thorough, KERAS_TAKES_NONE]),
        pytest.param("arrays", {"run_eagerly": True}, marks=pytest.mark.thorough),
        pytest.param("generator of None", {"run_eagerly": True}, marks=KERAS_TAKES_NONE),
        pytest.param(
            "structure", {"run_eagerly": True, "steps_per_execution": 3}, marks=pytest.mark.thorough
        ),
    ],
)
def test_training_has_the_same_bits_with_and_without_a_look(
    kind: str, compiled: dict[str, Any]
) -> None:
    plain, looked = Run(looks=False, **compiled), Run(looks=True, **compiled)
    for run in (plain, looked):
        run.fit(**KINDS[kind]())
    assert_same_bits(looked.results(), plain.results())
    assert looked.model.num_runs == plain.model.num_runs
    has_ended = [element is None for element in looked.elements]
    assert has_ended == [kind.startswith("empty")] * EPOCHS


@pytest.mark.parametrize(
    "compiled",
    [
        pytest.param({}, marks=pytest.mark.thorough),
        {"steps_per_execution": 3},
        pytest.param({"run_eagerly": True}, marks=pytest.mark.thorough),
    ],
)
def test_evaluation_and_prediction_are_the_same_with_a_look(compiled: dict[str, Any]) -> None:
    x, y = samples()
    results = []
    for run in (Run(looks=False, **compiled), Run(looks=True, **compiled)):
        of_run = []
        for _ in range(2):
            run.ask()
            of_run += run.model.evaluate(x, y, batch_size=BATCH_SIZE, verbose=0)
            run.ask()
            of_run += [*run.model.predict(x, batch_size=BATCH_SIZE, verbose=0)]
        results.append([*map(np.asarray, of_run), np.asarray(run.model.num_runs)])
    assert_same_bits(results[1], results[0])
    evaluated, predicted = run.elements[:2]
    np.testing.assert_array_equal(evaluated[0], x[:BATCH_SIZE])
    np.testing.assert_array_equal(predicted, x[:BATCH_SIZE])
    assert len(run.elements) == 4


def test_single_batches_are_the_same_with_a_look() -> None:
    x, y = samples()
    results = []
    for run in (Run(looks=False), Run(looks=True)):
        of_run = []
        for _ in range(2):
            run.ask()
            of_run += run.model.train_on_batch(x, y)
            run.ask()
            of_run += run.model.test_on_batch(x, y)
            run.ask()
            of_run += [run.model.predict_on_batch(x)]
        results.append([*map(np.asarray, of_run), *run.model.get_weights()])
    assert_same_bits(results[1], results[0])
    assert len(run.elements) == 6
    for trained, tested, predicted in (run.elements[:3], run.elements[3:]):
        for element in (trained, tested):
            np.testing.assert_array_equal(element[0], x)
            np.testing.assert_array_equal(element[1], y)
            assert element[2] is None
        np.testing.assert_array_equal(predicted[0], x)


def test_look_shows_what_the_step_gets_next() -> None:
    seen: list[int] = []
    looked: list[int | None] = []
    wanted = iter([True, False, True, True, True])
    iterator = iter(tf.data.Dataset.range(4))
    function = FirstElement(
        lambda data: seen.append(int(data.get_next())),
        lambda element: looked.append(None if element is None else int(element)),
        lambda _: next(wanted),
    )
    for _ in range(4):
        function(iterator)
    with pytest.raises(tf.errors.OutOfRangeError):
        function(iterator)
    assert seen == [0, 1, 2, 3]
    assert looked == [0, 2, 3, None]


@KERAS_TAKES_NONE
def test_empty_optional_is_shown_as_the_none_that_it_stands_for() -> None:
    run = Run(looks=True)
    run.fit(x=with_no_weights(), steps_per_epoch=2)
    assert all(element[2] is None for element in run.elements)
    np.testing.assert_array_equal(run.elements[0][0], samples()[0][:BATCH_SIZE])


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_function_may_take_as_many_elements_as_it_likes(taken: int) -> None:
    read: list[int] = []

    def source() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    at_once = tf.data.Options()  # TensorFlow reads ahead by itself otherwise
    at_once.autotune.enabled = False
    dataset = tf.data.Dataset.from_generator(source, output_signature=tf.TensorSpec([]))
    iterator = iter(dataset.with_options(at_once))
    function = FirstElement(
        lambda data: [int(data.get_next()) for _ in range(taken)], lambda _: None, lambda _: True
    )
    assert function(iterator) + function(iterator) == list(range(2 * taken))
    assert read == list(range(2 * taken))


def test_graph_is_traced_once_for_the_call_with_a_look_and_those_after_it() -> None:
    @tf.function(reduce_retracing=True)
    def total(iterator: Any) -> Any:
        return tf.reduce_sum(iterator.get_next())

    wanted = iter([True, False, True])
    function = FirstElement(total, lambda _: None, lambda _: next(wanted))
    iterator = iter(tf.data.Dataset.range(7).batch(3))
    assert [int(function(iterator)) for _ in range(3)] == [3, 12, 6]
    assert function.experimental_get_tracing_count() == 1


def test_error_in_the_data_is_raised_as_without_a_look() -> None:
    def checked(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_equal(number, number % 1, "too large")]):
            return tf.identity(number)

    iterator = iter(tf.data.Dataset.range(3).map(checked))
    function = FirstElement(lambda data: int(data.get_next()), lambda _: None, lambda _: True)
    assert function(iterator) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        function(iterator)


def test_what_the_iterator_holds_is_given_back_as_without_a_look() -> None:
    function = FirstElement(lambda data: data.get_next(), lambda _: None, lambda _: True)
    iterator = iter(tf.data.Dataset.range(8).shuffle(8))
    [resource] = tf.nest.flatten(iterator, expand_composites=True)
    reference = weakref.ref(resource)
    del resource
    gc.disable()
    try:
        function(iterator)
        assert reference() is not None
        del iterator
        assert reference() is None
    finally:
        gc.enable()


def test_function_is_found_behind_the_look() -> None:
    @tf.function
    def train_function(iterator: Any) -> Any:
        """Train."""
        return iterator.get_next()

    function = FirstElement(train_function, lambda _: None, lambda _: False)
    assert function.__wrapped__ is train_function
    assert function.__name__ == train_function.__name__
    assert function.experimental_get_tracing_count() == 0
    assert list(inspect.signature(function).parameters) == ["iterator"]
    assert not hasattr(function, "no_such_name")


def test_keras_keeps_the_function_until_it_is_to_be_made_anew() -> None:
    run = Run(looks=True)
    looks = run.model.train_function
    run.model.make_train_function()
    assert run.model.train_function is looks
    run.model.make_train_function(force=True)
    assert not isinstance(run.model.train_function, FirstElement)


def test_kinds_of_elements_differ_by_structure_dtype_and_dimensions_but_not_by_size() -> None:
    x = tf.zeros([3, 4])
    assert kind_of((x, x, None)) == kind_of((x[:2], x[:, :1], None))
    others = [(x, x), (x, x, x), (x, tf.cast(x, tf.int32), None), (x, x[0], None), {"x": x}]
    others += [(x, tf.sparse.from_dense(x), None), (x, tf.RaggedTensor.from_tensor(x), None)]
    assert len({kind_of(other) for other in [(x, x, None), *others]}) == 1 + len(others)


def test_kind_of_a_spec_is_that_of_its_elements() -> None:
    dataset = parts_of_text()
    assert kind_of(dataset.element_spec) == kind_of(next(iter(dataset)))
