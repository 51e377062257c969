"""Training loops as users write them, from Keras' guides: serial, and with all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras
from tnt_keras import ProbeError

NUM_SAMPLES, BATCH_SIZE = 19, 6  # the last batch of a pass has one sample, fewer than ranks


def images() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(5)
    x = generator.normal(size=(NUM_SAMPLES, 4, 4, 1)).astype("float32")
    return x, generator.integers(0, 3, NUM_SAMPLES)


def _batches(distributed: bool, noise_shape: tuple[int, ...] | None = None) -> Any:
    """Images with labels, or with noise: what ranks draw themselves is not what one rank draws."""
    x, second = images()
    if noise_shape is not None:
        second = np.random.default_rng(6).normal(size=(NUM_SAMPLES, *noise_shape))
        second = second.astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, second))
    data = data.shuffle(NUM_SAMPLES, seed=7).batch(BATCH_SIZE)
    return tnt_keras.data.distribute(data) if distributed else data


def _step(distributed: bool, **options: Any) -> Callable[[Any], Any]:
    """The decorator of a step."""
    if distributed:
        return tnt_keras.function(**options)
    return (lambda function: function) if options.get("run_eagerly") else tf.function


def _classifier() -> keras.Model:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


def _weights(*owners: Any) -> list[np.ndarray]:
    return [np.asarray(variable) for owner in owners for variable in owner.variables]


def from_scratch(distributed: bool, shares_dataset: bool, run_eagerly: bool) -> dict[str, Any]:
    """Keras' guide: loss, optimizer and metrics by hand, validation at the end of each epoch."""
    model = _classifier()
    optimizer = keras.optimizers.Adam(0.02)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    val_accuracy = keras.metrics.SparseCategoricalAccuracy()
    step = _step(distributed, run_eagerly=run_eagerly)

    @step
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        accuracy.update_state(y, logits)
        return loss

    @step
    def test_step(x: Any, y: Any) -> None:
        val_accuracy.update_state(y, model(x, training=False))

    losses, results = [], []
    data = _batches(distributed and shares_dataset)
    for _ in range(2):
        losses += [float(train_step(x, y)) for x, y in data]
        for x, y in data:
            test_step(x, y)
        for metric in (accuracy, val_accuracy):
            results.append(float(metric.result()))
            metric.reset_state()
    return {"weights": _weights(model, optimizer), "losses": losses, "results": results}


def gan(distributed: bool) -> dict[str, Any]:
    """Keras' guide: two models and two optimizers in one step, which returns images."""
    keras.utils.set_random_seed(3)
    discriminator = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    generator = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(16, "tanh"), keras.layers.Reshape((4, 4, 1))]
    )
    d_optimizer, g_optimizer = keras.optimizers.Adam(0.03), keras.optimizers.SGD(0.1)
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    @_step(distributed)
    def train_step(real_images: Any, vectors: Any) -> Any:
        generated = generator(vectors)
        with tf.GradientTape() as tape:
            on_generated, on_real = discriminator(generated), discriminator(real_images)
            d_loss = loss_fn(tf.ones_like(on_generated), on_generated)
            d_loss += loss_fn(tf.zeros_like(on_real), on_real)
        gradients = tape.gradient(d_loss, discriminator.trainable_weights)
        d_optimizer.apply(gradients, discriminator.trainable_weights)
        with tf.GradientTape() as tape:
            predictions = discriminator(generator(vectors))
            g_loss = loss_fn(tf.zeros_like(predictions), predictions)
        gradients = tape.gradient(g_loss, generator.trainable_weights)
        g_optimizer.apply(gradients, generator.trainable_weights)
        return d_loss, g_loss, generated

    results = [train_step(*both) for _ in range(2) for both in _batches(distributed, (5,))]
    return {
        "weights": _weights(discriminator, generator, d_optimizer, g_optimizer),
        "losses": [[float(d_loss), float(g_loss)] for d_loss, g_loss, _ in results],
        "images": np.concatenate([np.asarray(generated) for *_, generated in results]),
    }


def vae(distributed: bool) -> dict[str, Any]:
    """A variational autoencoder, its loss written down, its mean kept by a metric."""
    keras.utils.set_random_seed(3)
    encoder = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(4)]
    )
    decoder = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16), keras.layers.Reshape((4, 4, 1))]
    )
    optimizer = keras.optimizers.Adam(0.02)
    tracker = keras.metrics.Mean()

    @_step(distributed)
    def train_step(x: Any, noise: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(x), 2, axis=1)
            reconstruction = decoder(mean + tf.exp(0.5 * log_variance) * noise)
            error = tf.reduce_mean(tf.reduce_sum(tf.square(x - reconstruction), axis=(1, 2, 3)))
            kl = -0.5 * (1 + log_variance - tf.square(mean) - tf.exp(log_variance))
            loss = error + tf.reduce_mean(tf.reduce_sum(kl, axis=1))
        variables = encoder.trainable_weights + decoder.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        tracker.update_state(loss, sample_weight=tf.shape(x)[0])
        return {"loss": loss, "kl": tf.reduce_mean(tf.reduce_sum(kl, axis=1))}

    logs = [train_step(*both) for _ in range(2) for both in _batches(distributed, (2,))]
    return {
        "weights": _weights(encoder, decoder, optimizer),
        "logs": [[float(one["loss"]), float(one["kl"])] for one in logs],
        "mean": float(tracker.result()),
    }


def gradient_penalty(distributed: bool) -> dict[str, Any]:
    """A critic whose gradients with respect to images shall have the length one."""
    keras.utils.set_random_seed(3)
    critic = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(6, "tanh"),
            keras.layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.Adam(0.02)

    @_step(distributed)
    def critic_step(x: Any, fake: Any) -> Any:
        with tf.GradientTape() as tape:
            mixed = x + tf.sigmoid(fake[:, :1, :1]) * (fake - x)
            with tf.GradientTape() as inner:
                inner.watch(mixed)
                score = critic(mixed, training=True)
            slopes = inner.gradient(score, mixed)
            length = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=(1, 2, 3)))
            loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(x))
            loss += 10.0 * tf.reduce_mean(tf.square(length - 1.0))
        gradients = tape.gradient(loss, critic.trainable_weights)
        optimizer.apply(gradients, critic.trainable_weights)
        return loss

    losses = [float(critic_step(*both)) for both in _batches(distributed, (4, 4, 1))]
    return {"weights": _weights(critic, optimizer), "losses": losses}


def all_kinds_of_arguments(distributed: bool) -> dict[str, Any]:
    """Arrays by keyword, a scalar that changes, constants, a method; rows and vectors returned."""
    model = _classifier()
    optimizer = keras.optimizers.SGD(0.1)

    class Trainer:
        factor = 0.5

        @_step(distributed, probe="error")
        def step(
            self, batch: Any, scale: Any, *, weights: Any, name: str, settings: dict[str, Any]
        ) -> Any:
            with tf.GradientTape() as tape:
                logits = model(batch["x"])
                losses = keras.losses.sparse_categorical_crossentropy(
                    batch["y"], logits, from_logits=True
                )
                loss = tf.reduce_mean(losses * weights) * scale * self.factor
                loss = 2.0 * loss if settings["doubled"] else loss
            gradients = tape.gradient(loss, model.trainable_weights)
            optimizer.apply(gradients, model.trainable_weights)
            return {name: loss, "logits": logits, "of_classes": tf.reduce_mean(logits, axis=0)}

    trainer, (x, y) = Trainer(), images()
    weights = np.linspace(0.0, 2.0, NUM_SAMPLES, dtype="float32")
    results: list[list[np.ndarray]] = []
    settings: dict[str, Any] = {"doubled": False}
    for index, begin in enumerate(range(0, NUM_SAMPLES, BATCH_SIZE)):
        rows = slice(begin, begin + BATCH_SIZE)
        settings["doubled"] = index % 2 == 1
        result = trainer.step(
            {"x": x[rows], "y": y[rows]},
            tf.constant(1.0 + index),
            weights=weights[rows],
            name="loss",
            settings=settings,
        )
        results.append([np.asarray(result[key]) for key in ("loss", "logits", "of_classes")])
    return {"weights": _weights(model), **{str(i): result for i, result in enumerate(results)}}


def variable_of_its_own(distributed: bool) -> dict[str, Any]:
    """What is trained is no weight of a model, and begins with other values on each rank."""
    generator = np.random.default_rng(tnt_keras.get_rank() if distributed else 0)
    kernel = keras.Variable(generator.normal(size=(16, 3)).astype("float32"))
    optimizer = keras.optimizers.Adam(0.01)

    @_step(distributed, probe="error")
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.reshape(x, [-1, 16]), kernel)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, [kernel]), [kernel])
        return loss

    losses = [np.asarray(train_step(x, y)) for x, y in _batches(distributed)]
    return {"weights": [np.asarray(kernel)], "losses": losses}


def sums_and_branches(distributed: bool) -> dict[str, Any]:
    """The loss is a sum over samples; another function is a part of the step; `if` on tensors."""
    model = _classifier()
    optimizer = keras.optimizers.SGD(0.01)

    @_step(distributed, probe="error")
    def loss_of(x: Any, y: Any) -> Any:
        logits = model(x, training=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)

    @_step(distributed, probe="error")
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = loss_of(x, y)
            loss = tf.reduce_sum(losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        if optimizer.iterations % 2 == 0:
            gradients = [2.0 * gradient for gradient in gradients]
        optimizer.apply(gradients, model.trainable_weights)
        return loss, losses

    results = [train_step(x, y) for x, y in _batches(distributed)]
    losses = [np.asarray(losses) for _, losses in results]
    return {
        "weights": _weights(model),
        "loss": [float(loss) for loss, _ in results],
        "losses": np.concatenate(losses),
    }


def files(folder: str) -> dict[str, Any]:
    """What all ranks find in files that all of them write after each step, for one path."""
    model, optimizer = _classifier(), keras.optimizers.SGD(0.1)
    whole = keras.Sequential([keras.Input((4, 4, 1)), model])  # of which the step calls a part

    @tnt_keras.function
    def step(x: Any, y: Any) -> Any:
        assert whole.built
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    for x, y in _batches(True):
        step(x, y)
        for one in (model, whole):
            one.save(f"{folder}/{one.name}.keras")
            one.save_weights(f"{folder}/{one.name}.weights.h5")
    loaded = [keras.models.load_model(f"{folder}/{one.name}.keras") for one in (model, whole)]
    whole.load_weights(f"{folder}/{whole.name}.weights.h5")
    again = tnt_keras.Model(model)
    return {
        "weights": [_weights(one) for one in (*loaded, whole)],
        "expected": _weights(model),
        "description": keras.saving.serialize_keras_object(again),
        "plain description": keras.saving.serialize_keras_object(_classifier_named(model.name)),
    }


def _classifier_named(name: str) -> keras.Model:
    plain = _classifier()
    plain.name = name
    return plain


def _error(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def mistakes() -> dict[str, str]:
    """What is said to calls that cannot be right."""
    model = _classifier()
    optimizer = keras.optimizers.SGD(0.1)
    x, y = images()
    x, y = x[:BATCH_SIZE], y[:BATCH_SIZE]

    @tnt_keras.function(probe="error")
    def train_step(x: Any, y: Any = None, quotient: bool = False) -> Any:
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum(tf.square(model(x)), axis=1)
            loss = tf.reduce_mean(errors)
            if quotient:
                mask = tf.cast(y > 0, tf.float32)
                loss = tf.reduce_sum(errors * mask) / tf.reduce_sum(mask)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        return loss

    dataset = tnt_keras.data.distribute(tf.data.Dataset.from_tensor_slices(x).batch(6))
    parts = next(iter(dataset))
    rank = tnt_keras.get_rank()
    found = {
        "no samples": _error(lambda: train_step(tf.constant(1.0))),
        "other rows": _error(lambda: train_step(x, y[:3])),
        "mixed": _error(lambda: train_step([x, 1])),
        "changed part": _error(lambda: train_step(parts, 2.0 * parts)),
        "other batches": _error(lambda: train_step(x + rank)),
        "other scalars": _error(lambda: train_step(x, tf.constant(rank))),
        "other constants": _error(lambda: train_step(x, y, quotient=rank == 1)),
        "inside of a graph": _error(lambda: tf.function(lambda: train_step(x))()),
        "loop inside of a graph": _error(lambda: tf.function(lambda: list(dataset))()),
        "quotient": _error(lambda: train_step(x, y, quotient=True)),
        "dataset": _error(lambda: tnt_keras.data.distribute([x])),
        "probe": _error(lambda: tnt_keras.function(lambda: None, probe="no")),
    }
    found["right"] = _error(lambda: train_step(x))
    return found


def changed_by_one_rank() -> list[str]:
    """What is said when rank 0 changes weights, and rank 1 a learning rate, between steps."""
    model = _classifier()
    optimizer = keras.optimizers.SGD(0.1)
    x, y = images()

    @tnt_keras.function
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    def steps(step: Callable[..., Any]) -> Callable[[], None]:
        return lambda: [step(x, y) for _ in range(3)] and None

    compiled = tnt_keras.Model(_classifier())
    compiled.compile("sgd", "sparse_categorical_crossentropy")
    steps(train_step)()
    steps(compiled.train_on_batch)()
    if tnt_keras.is_master_rank():
        model.set_weights([weight + 1 for weight in model.get_weights()])
    else:
        compiled.optimizer.learning_rate = 0.5
    return [_error(steps(train_step)), _error(steps(compiled.train_on_batch))]


def loop_without_function() -> list[str]:
    """The step is in the loop itself, over the parts of this rank; then over all samples."""
    model = _classifier()

    def loop(data: Any) -> None:
        optimizer = keras.optimizers.SGD(0.1)
        for x, _ in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x))
            gradients = tape.gradient(loss, model.trainable_weights)
            optimizer.apply(gradients, model.trainable_weights)

    errors = [_error(lambda: loop(_batches(True))), _error(lambda: loop(_batches(False)))]
    assert all(ProbeError.__name__ in error for error in errors[:1])
    return errors


def parts_of_a_dataset() -> dict[str, Any]:
    """What the elements of a distributed dataset hold, pass by pass."""
    data = tf.data.Dataset.range(7).map(lambda i: (i, {"double": 2 * i})).batch(3)
    shared = tnt_keras.data.distribute(data)
    passes = [[(x.numpy().tolist(), y["double"].numpy().tolist()) for x, y in shared]] * 2
    return {
        "passes": passes,
        "length": len(shared),
        "spec": str(shared.element_spec) == str(data.element_spec),
    }
