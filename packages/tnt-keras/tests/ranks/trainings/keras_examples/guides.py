"""What Keras' guides for developers show."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, NUM_SAMPLES, adam, labels, numbers, shown, tokens


@example("guides", "functional API: several inputs and outputs with losses and their weights")
def inputs_and_outputs(tnt: Any) -> Values:
    title, tags = keras.Input((6,), dtype="int32", name="title"), keras.Input((4,), name="tags")
    read = layers.LSTM(4)(layers.Embedding(12, 4, mask_zero=True)(title))
    x = layers.concatenate([read, tags])
    priority = layers.Dense(1, name="priority")(x)
    department = layers.Dense(3, name="department")(x)
    outputs = {"priority": priority, "department": department}
    model = keras.Model({"title": title, "tags": tags}, outputs)
    loss = {
        "priority": keras.losses.BinaryCrossentropy(from_logits=True),
        "department": keras.losses.CategoricalCrossentropy(from_logits=True),
    }
    model = tnt.Model(model)
    weights = {"priority": 1.0, "department": 0.2}
    model.compile(keras.optimizers.RMSprop(1e-3, epsilon=1e-3), loss, loss_weights=weights)
    y = {
        "priority": labels(2).astype("float32")[:, None],
        "department": keras.utils.to_categorical(labels(), 3),
    }
    return shown(model, history=model.fit({"title": tokens(), "tags": numbers(4)}, y, **FIT))


def _network() -> Any:
    first = layers.Dense(6, activation="relu")
    return keras.Sequential([keras.Input((5,)), first, layers.Dense(3)])


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@example("guides", "fit with a train_step and test_step of one's own, and sample weights")
def own_steps(tnt: Any) -> Values:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(x, y, y_pred, sample_weight)
            weights = self.trainable_weights
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return self._logs(y, y_pred, loss, sample_weight)

        def test_step(self, data: Any) -> dict[str, Any]:
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
            y_pred = self(x, training=False)
            loss = self.compute_loss(x, y, y_pred, sample_weight)
            return self._logs(y, y_pred, loss, sample_weight)

        def _logs(self, y: Any, y_pred: Any, loss: Any, sample_weight: Any) -> dict[str, Any]:
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred, sample_weight=sample_weight)
            return {metric.name: metric.result() for metric in self.metrics}

    model = Own([keras.Input((5,)), layers.Dense(6, activation="relu"), layers.Dense(3)])
    model = tnt.Model(model)
    model.compile(adam(), LOSS, metrics=["accuracy"])
    weights = np.linspace(0.2, 2.0, NUM_SAMPLES).astype("float32")
    history = model.fit(numbers(5), labels(), sample_weight=weights, validation_split=0.25, **FIT)
    return shown(model, history=history)


@example("guides", "training loop from scratch with validation")
def own_loop(tnt: Any) -> Values:
    model, optimizer = _network(), adam()
    accuracy, val_accuracy = (keras.metrics.SparseCategoricalAccuracy() for _ in range(2))
    samples = tf.data.Dataset.from_tensor_slices((numbers(5), labels()))
    dataset = tnt.data.distribute(samples.shuffle(16, seed=3).batch(BATCH_SIZE))  # changed

    @tnt.function  # changed
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = LOSS(y, logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        accuracy.update_state(y, logits)
        return loss

    @tnt.function  # changed
    def test_step(x: Any, y: Any) -> None:
        val_accuracy.update_state(y, model(x, training=False))

    losses, results = [], []
    for _ in range(EPOCHS):
        losses += [float(train_step(x, y)) for x, y in dataset]
        for x, y in dataset:
            test_step(x, y)
        results += [float(accuracy.result()), float(val_accuracy.result())]
        accuracy.reset_state()
        val_accuracy.reset_state()
    return shown(model, losses=losses, results=results)


@example("guides", "callbacks of one's own: stop at the smallest loss, a schedule of rates")
def own_callbacks(tnt: Any) -> Values:
    class StopAtSmallest(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            self.best, self.weights, self.batches = np.inf, None, []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches.append(logs["loss"])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if logs["val_loss"] < self.best:
                self.best, self.weights = logs["val_loss"], self.model.get_weights()
            elif epoch > 0:
                self.model.stop_training = True
                self.model.set_weights(self.weights)

    stop = StopAtSmallest()
    rates = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    model = tnt.Model(_network())
    model.compile(keras.optimizers.SGD(0.4), LOSS, metrics=["accuracy"])
    options = {"validation_split": 0.25, "callbacks": [stop, rates]}
    history = model.fit(numbers(5), labels(), **FIT, **options)
    return shown(model, history=history, batches=stop.batches)


@example("guides", "layers of one's own: add_loss, a non-trainable sum, a regularizer, a metric")
def own_layers(tnt: Any) -> Values:
    class Activity(layers.Layer):
        def build(self, shape: Any) -> None:
            self.total = self.add_weight(shape=(), initializer="zeros", trainable=False)
            self.norm = keras.metrics.Mean(name="norm")

        def call(self, x: Any, training: bool = False) -> Any:
            squares = keras.ops.sum(x**2, axis=1)
            self.add_loss(0.01 * keras.ops.mean(squares))
            self.norm.update_state(squares)
            if training:
                self.total.assign_add(keras.ops.sum(squares))
            return x

    hidden = layers.Dense(6, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-2))
    model = keras.Sequential([keras.Input((5,)), hidden, Activity(), layers.Dense(3)])
    model = tnt.Model(model)
    model.compile(adam(), LOSS)
    return shown(model, history=model.fit(numbers(5), labels(), **FIT))


@example("guides", "saving: a model with a registered layer, loaded and trained further")
def saving(tnt: Any) -> Values:
    @keras.saving.register_keras_serializable("examples")
    class Scale(layers.Layer):
        def __init__(self, factor: float, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.factor = factor

        def build(self, shape: Any) -> None:
            self.shift = self.add_weight(shape=shape[-1:], initializer="zeros")

        def call(self, x: Any) -> Any:
            return self.factor * x + self.shift

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "factor": self.factor}

    model = keras.Sequential([keras.Input((5,)), Scale(2.0), layers.Dense(3)])
    model = tnt.Model(model)
    model.compile(adam(), LOSS, metrics=["accuracy"])
    model.fit(numbers(5), labels(), **FIT)
    model.save("model.keras")
    loaded = tnt.Model(keras.saving.load_model("model.keras"))
    history = loaded.fit(numbers(5), labels(), **FIT)
    return shown(loaded, history=history, before=model.predict(numbers(5), verbose=0))


@example("guides", "search of hyperparameters: a new model for each trial, the best one kept")
def hyperparameters(tnt: Any) -> Values:
    results = []
    for width, rate in ((2, 0.1), (4, 0.03)):
        model = keras.Sequential([keras.Input((5,)), layers.Dense(width, "relu"), layers.Dense(3)])
        model = tnt.Model(model)
        model.compile(keras.optimizers.SGD(rate), LOSS, metrics=["accuracy"])
        history = model.fit(numbers(5), labels(), validation_split=0.25, **FIT)
        results.append((min(history.history["val_loss"]), model))
    best = min(results, key=lambda result: result[0])
    return shown(best[1], losses=[loss for loss, _ in results])


@example("guides", "LoRA: fine-tuning of small matrices beside frozen embeddings and layers")
def low_rank_adaptation(tnt: Any) -> Values:
    inputs = keras.Input((6,), dtype="int32")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(12, 4)(inputs))
    model = keras.Model(inputs, layers.Dense(3)(layers.Dense(5, "relu")(x)))
    for layer in model.layers:
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(2)
    model = tnt.Model(model)
    model.compile(adam(), LOSS, weighted_metrics=["accuracy"])
    history = model.fit(tokens(), labels(), **FIT)
    return shown(model, history=history, trained=len(model.trainable_weights))


@example("guides", "gradient accumulation, averaged weights and a schedule in the optimizer")
def optimizer_options(tnt: Any) -> Values:
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 8, warmup_target=0.2, warmup_steps=2)
    optimizer = keras.optimizers.SGD(
        schedule, momentum=0.9, global_clipnorm=1.0, gradient_accumulation_steps=2, use_ema=True
    )
    model = tnt.Model(_network())
    model.compile(optimizer, LOSS, metrics=["accuracy"], steps_per_execution=2)
    history = model.fit(numbers(5), labels(), **FIT)
    optimizer.finalize_variable_values(model.trainable_variables)
    return shown(model, history=history)


@example("guides", "a PyDataset of one's own, with workers")
def own_py_dataset(tnt: Any) -> Values:
    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return -(-NUM_SAMPLES // BATCH_SIZE)

        def __getitem__(self, index: int) -> Any:
            rows = slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE)
            return numbers(5)[rows], labels()[rows]

    model = tnt.Model(_network())
    model.compile(adam(), LOSS, metrics=["accuracy"])
    history = model.fit(Batches(workers=2), epochs=EPOCHS, shuffle=False, verbose=0)
    return shown(model, history=history)
