"""What a step may take, train, return and write: serial, and with all ranks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from loop_parts import (
    BATCH_SIZE,
    NUM_SAMPLES,
    batches,
    classifier,
    images,
    step_of,
    weights_of,
)

import tnt_keras


def all_kinds_of_arguments(distributed: bool) -> dict[str, Any]:
    """Arrays by keyword, a scalar that changes, constants, a method; rows and vectors returned.

    A seed has no row for each sample, and a dictionary holds samples, a scalar and a constant.
    """
    model = classifier()
    optimizer = keras.optimizers.SGD(0.1)

    class Trainer:
        factor = 0.5

        @step_of(distributed)
        def step(
            self,
            batch: Any,
            seed: Any,
            scale: Any,
            *,
            weights: Any,
            name: str,
            settings: dict[str, Any],
        ) -> Any:
            noise = batch["spread"] * tf.random.stateless_normal(tf.shape(batch["x"]), seed)
            with tf.GradientTape() as tape:
                logits = model(batch["x"] + noise, training=batch["training"])
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
            {"x": x[rows], "y": y[rows], "spread": tf.constant(0.1), "training": True},
            np.array([1, index]),
            tf.constant(1.0 + index),
            weights=weights[rows],
            name="loss",
            settings=settings,
        )
        results.append([np.asarray(result[key]) for key in ("loss", "logits", "of_classes")])
    return {"weights": weights_of(model), **{str(i): result for i, result in enumerate(results)}}


def variable_of_its_own(distributed: bool) -> dict[str, Any]:
    """What is trained is no weight of a model, and begins with other values on each rank.

    Beside parts of batches the step is given what it returned before, and weights of classes.
    """
    generator = np.random.default_rng(tnt_keras.get_rank() if distributed else 0)
    kernel = keras.Variable(generator.normal(size=(16, 3)).astype("float32"))
    optimizer = keras.optimizers.Adam(0.01)

    @step_of(distributed)
    def train_step(x: Any, y: Any, before: Any, of_classes: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.reshape(x, [-1, before.shape[0]]), kernel - 0.1 * before)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_mean(losses * tf.gather(of_classes, y))
        optimizer.apply(tape.gradient(loss, [kernel]), [kernel])
        return loss, kernel.value + 0.0

    losses, before = [], tf.zeros([16, 3])
    for x, y in batches(distributed):
        loss, before = train_step(x, y, before, np.array([1, 2, 3, 4], "float32"))
        losses.append(np.asarray(loss))
    return {"weights": [np.asarray(kernel)], "losses": losses}


def sums_and_branches(distributed: bool, run_eagerly: bool) -> dict[str, Any]:
    """The loss is a sum over samples; another function is a part of the step; `if` on tensors."""
    model = classifier()
    optimizer = keras.optimizers.SGD(0.01)

    @step_of(distributed, run_eagerly=run_eagerly)
    def loss_of(x: Any, y: Any) -> Any:
        logits = model(x, training=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)

    @step_of(distributed, run_eagerly=run_eagerly)
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = loss_of(x, y)
            loss = tf.reduce_sum(losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        if optimizer.iterations % 2 == 0:
            gradients = [2.0 * gradient for gradient in gradients]
        optimizer.apply(gradients, model.trainable_weights)
        return loss, losses

    results = [train_step(x, y) for x, y in batches(distributed)]
    losses = [np.asarray(losses) for _, losses in results]
    return {
        "weights": weights_of(model),
        "loss": [float(loss) for loss, _ in results],
        "losses": np.concatenate(losses),
    }


def files(folder: str) -> dict[str, Any]:
    """What all ranks find in files that all of them write after each step, for one path."""
    # Of the same names on all ranks, which may have made other models before.
    model, optimizer = _classifier_named("part"), keras.optimizers.SGD(0.1)
    whole = keras.Sequential([keras.Input((4, 4, 1)), model], name="whole")

    @tnt_keras.function
    def step(x: Any, y: Any) -> Any:
        assert whole.built
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    for x, y in batches(True):
        step(x, y)
        for one in (model, whole):
            one.save(f"{folder}/{one.name}.keras")
            one.save_weights(f"{folder}/{one.name}.weights.h5")
    loaded = [keras.models.load_model(f"{folder}/{one.name}.keras") for one in (model, whole)]
    whole.load_weights(f"{folder}/{whole.name}.weights.h5")
    again = tnt_keras.Model(model)
    return {
        "weights": [weights_of(one) for one in (*loaded, whole)],
        "expected": weights_of(model),
        "description": keras.saving.serialize_keras_object(again),
        "plain description": keras.saving.serialize_keras_object(_classifier_named("part")),
    }


def _classifier_named(name: str) -> keras.Model:
    plain = classifier()
    plain.name = name
    return plain


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
