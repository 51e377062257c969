"""Trainings of all kinds, whose every bit must be the same however lanes are on ranks."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

import tnt_keras

TRAININGS: dict[str, Callable[[], Any]] = {}
"""Functions that train on all ranks and return what is compared, by name."""

NUM_SAMPLES = 43
BATCH_SIZE = 12  # not divisible by 8; the last batch has 7 rows


def training(function: Callable[[], Any]) -> Callable[[], Any]:
    """Collect a training, which begins with a seed."""

    @functools.wraps(function)
    def seeded() -> dict[str, str]:
        keras.backend.clear_session()
        keras.utils.set_random_seed(5)
        policy = keras.config.dtype_policy()
        try:
            return _hashes(function())
        finally:
            keras.config.set_dtype_policy(policy)

    TRAININGS[function.__name__] = seeded
    return seeded


def _hashes(values: Any) -> dict[str, str]:
    """Return a hash of each leaf of what a training returns; models are taken with optimizers."""
    found = {}
    for name, value in values.items():
        variables = []
        if isinstance(value, keras.Model):
            optimizer = value.optimizer
            variables = [*value.variables, *(optimizer.variables if optimizer else ())]
        leaves = variables or keras.tree.flatten(value)
        for i, leaf in enumerate(leaves):
            array = np.asarray(leaf.value if isinstance(leaf, keras.Variable) else leaf)
            found[f"{name} {i} {getattr(leaf, 'path', '')}"] = hashlib.sha256(
                np.ascontiguousarray(array).tobytes()
            ).hexdigest()
    return found


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def _labels(count: int = NUM_SAMPLES) -> Any:
    return np.random.default_rng(9).integers(0, 3, count)


def _classifier(*middle: Any, shape: tuple[int, ...] = (6, 6, 2)) -> Any:
    outputs = [layers.Flatten(), layers.Dense(3)]
    return tnt_keras.Sequential([keras.Input(shape), *middle, *outputs])


def _fitted(model: Any, optimizer: Any, *, epochs: int = 2, **of_fit: Any) -> dict[str, Any]:
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    x = _numbers(NUM_SAMPLES, *model.input_shape[1:])
    given = {"x": x, "y": _labels(), "batch_size": BATCH_SIZE} | of_fit
    history = model.fit(**given, epochs=epochs, verbose=0)
    return {
        "model": model,
        "history": history.history,
        "evaluation": model.evaluate(x, _labels(), batch_size=10, verbose=0),
        "predictions": model.predict(x, batch_size=9, verbose=0),
    }


@training
def cnn_with_batch_normalisation_and_dropout() -> Any:
    """Local statistics are those of a lane, and draws those of the serial run."""
    middle = [layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), layers.Dropout(0.3)]
    return _fitted(_classifier(*middle), "adam", validation_split=0.2)


@training
def batches_whose_size_is_promised() -> Any:
    """A step that is traced for 12 rows has regions of fewer, and the results are the same."""
    samples = tf.data.Dataset.from_tensor_slices((_numbers(36, 6, 6, 2), _labels(36)))
    results = []
    for drop_remainder in (False, True):
        keras.utils.set_random_seed(6)
        model = _classifier(layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU())
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
        batches = samples.batch(BATCH_SIZE, drop_remainder=drop_remainder)
        history = model.fit(batches, epochs=2, verbose=0).history
        results.append({"history": history, "weights": model.get_weights()})
    first, second = map(_hashes, results)
    assert first == second
    return results[0]


@training
def global_batch_normalisation() -> Any:
    """Statistics of the whole batch need exchanges inside of a step."""
    middle = [layers.Conv2D(4, 3), layers.BatchNormalization(synchronized=True), layers.ReLU()]
    return _fitted(_classifier(*middle), keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))


@training
def lanes_of_single_rows() -> Any:
    """Totals have the shapes of rows, so that TensorFlow would make one sum of several."""
    inputs = keras.Input((4, 4, 3))
    x = layers.Conv2D(8, 4)(inputs)
    for _ in range(3):
        y = layers.BatchNormalization(synchronized=True)(layers.Conv2D(8, 1)(x))
        x = layers.ReLU()(x + layers.Conv2D(8, 1)(layers.ReLU()(y)))
    model = tnt_keras.Model(keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x))))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = _numbers(16, 4, 4, 3), _labels(16)
    histories = [model.fit(x, y, batch_size=size, verbose=0).history for size in (4, 8, 4)]
    return {"model": model, "histories": histories}


@training
def embedding_and_attention() -> Any:
    """Gradients of an embedding are sparse; short sequences are masked."""
    tokens = np.random.default_rng(2).integers(0, 20, (NUM_SAMPLES, 7)) * (np.arange(7) < 5)
    inputs = keras.Input((7,), dtype="int32")
    embedded = layers.Embedding(20, 8, mask_zero=True)(inputs)
    attended = layers.MultiHeadAttention(2, 4, dropout=0.1)(embedded, embedded)
    x = layers.LayerNormalization()(embedded + attended)
    x = layers.GlobalAveragePooling1D()(x)
    model = tnt_keras.Model(keras.Model(inputs, layers.Dense(3)(x)))
    model.compile(
        keras.optimizers.AdamW(0.01, clipnorm=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(tokens, _labels(), batch_size=BATCH_SIZE, epochs=2, verbose=0)
    return {"model": model, "history": history.history, "out": model.predict(tokens, verbose=0)}


@training
def recurrent_network() -> Any:
    """All lanes are in one loop of the graph."""
    middle = [layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.GRU(4)]
    return _fitted(_classifier(*middle, shape=(6, 4)), "rmsprop")


@training
def accumulated_gradients() -> Any:
    """Partial sums of several steps have no order of lanes, so each step adds them up."""
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, global_clipnorm=0.7)
    return _fitted(_classifier(layers.Conv2D(3, 3, activation="relu")), optimizer)


@training
def mixed_bfloat16() -> Any:
    """Totals of 16-bit floats are rounded once."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    middle = [layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), layers.Dropout(0.2)]
    return _fitted(_classifier(*middle), keras.optimizers.Adam(0.01))


@training
def scaled_loss_of_float16() -> Any:
    """The scale changes by what all lanes see."""
    keras.config.set_dtype_policy("mixed_float16")
    inner = keras.optimizers.SGD(0.01)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**14)
    return _fitted(_classifier(layers.Conv2D(4, 3, activation="relu")), optimizer)


@training
def muon() -> Any:
    """Muon multiplies matrices of gradients."""
    middle = [layers.Flatten(), layers.Dense(16, activation="relu"), layers.Dense(12)]
    muon = getattr(keras.optimizers, "Muon", keras.optimizers.Lion)  # newer versions have it
    return _fitted(_classifier(*middle), muon(0.01))


@training
def weights_of_samples_and_classes() -> Any:
    """Weighted means are sums divided by sums."""
    model = _classifier(layers.Dense(5, activation="tanh"))
    weights = np.random.default_rng(4).uniform(0, 2, NUM_SAMPLES).astype("float32")
    first = _fitted(model, "adamw", sample_weight=weights)
    second = _fitted(_classifier(layers.Dense(5)), "sgd", class_weight={0: 1.0, 1: 0.3, 2: 2.0})
    return {f"{n} {key}": v for n, each in enumerate((first, second)) for key, v in each.items()}


@training
def batches_smaller_than_lanes() -> Any:
    """A batch of three rows, and a single row at the end."""
    x, y = _numbers(10, 6), _labels(10)
    model = tnt_keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, batch_size=3, epochs=2, verbose=0)
    single = model.train_on_batch(x[:1], y[:1])
    tested = model.test_on_batch(x[:5], y[:5])
    return {
        "model": model,
        "history": history.history,
        "single": [single, tested],
        "predictions": [model.predict_on_batch(x), model.predict(x[:2], verbose=0)],
    }


@training
def several_outputs_of_a_shuffled_dataset() -> Any:
    """Rows come from a pipeline with a seeded shuffle, a parallel map and a short last batch."""
    x, y, z = _numbers(NUM_SAMPLES, 6), _labels(), _numbers(NUM_SAMPLES, 2)
    data = tf.data.Dataset.from_tensor_slices((x, {"class": y, "value": z}))
    data = data.shuffle(20, seed=4).map(lambda x, y: (x * 2.0, y), num_parallel_calls=2)
    inputs = keras.Input((6,))
    hidden = layers.Dense(7, activation="gelu")(inputs)
    outputs = {"class": layers.Dense(3)(hidden), "value": layers.Dense(2)(hidden)}
    model = tnt_keras.Model(keras.Model(inputs, outputs))
    losses = {
        "class": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "value": "huber",
    }
    model.compile(
        "adam", losses, metrics={"value": ["mae"]}, loss_weights={"class": 1.0, "value": 0.3}
    )
    batches = data.batch(BATCH_SIZE).prefetch(2)
    history = model.fit(batches, epochs=3, validation_data=batches, verbose=0)
    return {"model": model, "history": history.history, "out": model.predict(x, verbose=0)}


class _Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        rows = slice(index * 11, index * 11 + 11)
        return _numbers(NUM_SAMPLES, 6)[rows], _labels()[rows]


@training
def a_py_dataset_and_a_generator() -> Any:
    """Python code makes the batches, of 11 rows and 10 at the end."""
    model = tnt_keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    histories = [model.fit(_Batches(), epochs=2, verbose=0).history]

    def generated() -> Iterator[Any]:
        for index in range(4):
            yield _Batches()[index]

    histories.append(model.fit(generated(), verbose=0).history)
    return {"model": model, "histories": histories}


class _Contrastive(keras.Model):
    """Each row is compared with all others of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(4)])
        self.noise = layers.GaussianNoise(0.3)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            views = [self.encoder(self.noise(data, training=True)) for _ in range(2)]
            first, second = (ops.normalize(view, axis=-1) for view in views)
            similarities = ops.matmul(first, ops.transpose(second)) / 0.2
            labels = ops.arange(ops.shape(similarities)[0])
            loss = ops.mean(
                keras.losses.sparse_categorical_crossentropy(labels, similarities, from_logits=True)
            )
        weights = self.encoder.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss, "largest": ops.max(similarities)}


@training
def contrastive_learning() -> Any:
    """Rows are gathered inside of the step."""
    model = tnt_keras.Model(_Contrastive())
    model.compile(keras.optimizers.Adam(0.01))
    history = model.fit(_numbers(NUM_SAMPLES, 6), batch_size=BATCH_SIZE, epochs=2, verbose=0)
    return {"model": model, "history": history.history}


class _Gan(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.Sequential([keras.Input((3,)), layers.Dense(6)])
        self.discriminator = keras.Sequential(
            [keras.Input((6,)), layers.Dense(8, activation="leaky_relu"), layers.Dense(1)]
        )
        self.seeds = keras.random.SeedGenerator(3)

    def compile(self, first: Any, second: Any) -> None:
        super().compile()
        self.optimizers = [first, second]

    def train_step(self, real: Any) -> Any:
        latent = keras.random.normal((ops.shape(real)[0], 3), seed=self.seeds)
        entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        with tf.GradientTape() as of_both:
            scores = [self.discriminator(x) for x in (real, self.generator(latent))]
            truth = [ops.ones_like(scores[0]), ops.zeros_like(scores[1])]
            loss = entropy(ops.concatenate(truth), ops.concatenate(scores))
        weights = self.discriminator.trainable_variables
        self.optimizers[0].apply(of_both.gradient(loss, weights), weights)
        with tf.GradientTape() as tape:
            score = self.discriminator(self.generator(latent))
            fooled = entropy(ops.ones_like(score), score)
        weights = self.generator.trainable_variables
        self.optimizers[1].apply(tape.gradient(fooled, weights), weights)
        return {"loss": loss, "fooled": fooled}


@training
def generative_adversarial_networks() -> Any:
    """Two optimizers train two networks in one step, with latent draws."""
    model = tnt_keras.Model(_Gan())
    model.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.02))
    history = model.fit(_numbers(NUM_SAMPLES, 6), batch_size=BATCH_SIZE, epochs=2, verbose=0)
    optimizers = [[each.variables for each in model.optimizers]]
    return {"model": model, "history": history.history, "optimizers": optimizers}


@training
def a_critic_with_a_gradient_penalty() -> Any:
    """Derivatives of a gradient, of a persistent tape, through batch normalisation."""
    critic = tnt_keras.Sequential(
        [keras.Input((6,)), layers.Dense(5, "tanh"), layers.BatchNormalization(), layers.Dense(1)]
    )
    optimizer = keras.optimizers.Adam(0.01)

    @tnt_keras.function
    def train_step(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = critic(x, training=True)
                total = tf.reduce_sum(score)
            norms = tf.sqrt(tf.reduce_sum(inner.gradient(total, x) ** 2, 1) + 1e-8)
            loss = tf.reduce_mean(score) + tf.reduce_mean((norms - 1.0) ** 2)
        weights = critic.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    data = tf.data.Dataset.from_tensor_slices(_numbers(NUM_SAMPLES, 6)).batch(BATCH_SIZE)
    losses = [train_step(batch) for batch in tnt_keras.data.distribute(data)]
    variables = [np.asarray(v) for v in (*critic.variables, *optimizer.variables)]
    return {"losses": losses, "variables": variables}


@training
def batch_normalisation_under_a_persistent_tape() -> Any:
    """Derivatives that are zero are constants of the whole batch."""
    model = tnt_keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(6)]
    )
    optimizer = keras.optimizers.SGD(0.1)

    @tnt_keras.function
    def train_step(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((model(x, training=True) - x) ** 2)
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    data = tf.data.Dataset.from_tensor_slices(_numbers(NUM_SAMPLES, 6)).batch(BATCH_SIZE)
    losses = [train_step(batch) for batch in tnt_keras.data.distribute(data)]
    return {"losses": losses, "variables": [np.asarray(v) for v in model.variables]}


@training
def a_loop_of_ones_own() -> Any:
    """A step of the user's own, on the parts of a dataset and on whole batches."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.Dense(3)])
    optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.SparseCategoricalAccuracy()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tnt_keras.function
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        metric.update_state(y, logits)
        return loss, logits

    x, y = _numbers(NUM_SAMPLES, 6), _labels()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(30, seed=1).batch(BATCH_SIZE)
    results = [train_step(*batch) for _ in range(2) for batch in tnt_keras.data.distribute(data)]
    results.append(train_step(x[:9], y[:9]))
    return {
        "results": [np.asarray(leaf) for leaf in keras.tree.flatten(results)],
        "variables": [np.asarray(v) for v in (*model.variables, *optimizer.variables)],
        "metric": [float(metric.result())],
    }


@training
def sums_of_subnormal_numbers() -> Any:
    """Gradients so small that a sum of two is a normal number, and either is not."""
    model = tnt_keras.Sequential([keras.Input((4,)), layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(1e30), lambda y, z: ops.mean(z * 4e-38))
    history = model.fit(_numbers(40, 4), np.zeros(40), batch_size=10, epochs=1, verbose=0)
    return {"model": model, "history": history.history}
