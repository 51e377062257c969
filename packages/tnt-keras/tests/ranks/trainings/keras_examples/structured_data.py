"""Tables: columns of numbers and categories, rare classes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, NUM_SAMPLES, adam, labels, numbers, shown


def _columns() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(8)
    return {
        "age": generator.uniform(20, 70, NUM_SAMPLES).astype("float32"),
        "income": generator.lognormal(3, 1, NUM_SAMPLES).astype("float32"),
        "work": generator.choice(["office", "field", "none"], NUM_SAMPLES).astype(object),
        "region": generator.integers(0, 4, NUM_SAMPLES).astype("int64"),
    }


def _table() -> tf.data.Dataset:
    columns = {name: values.tolist() for name, values in _columns().items()}
    rows = tf.data.Dataset.from_tensor_slices((columns, labels(2)[:, None].astype("float32")))
    return rows.shuffle(NUM_SAMPLES, seed=1).batch(BATCH_SIZE)


@example("structured data", "classification with FeatureSpace: crossed and hashed columns")
def feature_space(tnt: Any) -> Values:
    space = keras.utils.FeatureSpace(
        {
            "age": keras.utils.FeatureSpace.float_discretized(num_bins=4),
            "income": "float_normalized",
            "work": keras.utils.FeatureSpace.string_categorical(num_oov_indices=1),
            "region": keras.utils.FeatureSpace.integer_categorical(num_oov_indices=0),
        },
        crosses=[keras.utils.FeatureSpace.cross(("work", "region"), crossing_dim=5)],
        output_mode="concat",
    )
    table = _table()
    space.adapt(table.map(lambda columns, label: columns))
    dataset = table.map(lambda columns, label: (space(columns), label)).prefetch(2)
    encoded = space.get_encoded_features()
    x = layers.Dropout(0.5)(layers.Dense(4, activation="relu")(encoded))
    model = keras.Model(encoded, layers.Dense(1, activation="sigmoid")(x))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(dataset, epochs=EPOCHS, validation_data=dataset.take(1), verbose=0)
    return shown(model, history=history)


@example("structured data", "preprocessing layers: Normalization and lookups, adapted before")
def preprocessing_layers(tnt: Any) -> Values:
    columns = _columns()
    normalization = layers.Normalization(axis=None)
    normalization.adapt(columns["income"])
    lookup = layers.StringLookup(output_mode="one_hot")
    lookup.adapt(columns["work"])
    regions = layers.IntegerLookup(vocabulary=[0, 1, 2, 3], output_mode="one_hot")

    def prepare(row: Any, label: Any) -> Any:
        ready = {"work": lookup(row["work"]), "region": regions(row["region"])}
        return ready | {"income": row["income"][:, None]}, label

    inputs = {
        "income": keras.Input((1,), name="income"),
        "work": keras.Input((lookup.vocabulary_size(),), name="work"),
        "region": keras.Input((regions.vocabulary_size(),), name="region"),
    }
    joined = [normalization(inputs["income"]), inputs["work"], inputs["region"]]
    x = layers.Dense(4, activation="relu")(layers.concatenate(joined))
    model = keras.Model(inputs, layers.Dense(1)(x))
    model = tnt.Model(model)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(adam(), loss, metrics=["accuracy"])
    history = model.fit(_table().map(prepare), epochs=EPOCHS, verbose=0)
    return shown(model, history=history)


@example("structured data", "wide and deep network with an optimizer for each part")
def wide_and_deep(tnt: Any) -> Values:
    wide, deep = keras.Input((5,)), keras.Input((6,))
    hidden = layers.Dense(4, activation="relu", name="deep_hidden")(deep)
    outputs = layers.add([layers.Dense(1, name="wide")(wide), layers.Dense(1, name="deep")(hidden)])
    model = keras.Model([wide, deep], outputs)
    optimizers = keras.optimizers.OptimizerMap(adam(), {"wide/.*": keras.optimizers.Ftrl(0.05)})
    model = tnt.Model(model)
    model.compile(keras.optimizers.MultiOptimizer(optimizers), "mse", metrics=["mae"])
    history = model.fit([numbers(5), numbers(6, seed=4)], numbers(1, seed=5), **FIT)
    return shown(model, history=history)


@example("structured data", "fraud among few positives: class_weight, precision and recall")
def rare_fraud(tnt: Any) -> Values:
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    metrics = [
        keras.metrics.FalseNegatives(name="missed"),
        keras.metrics.TruePositives(name="found"),
        keras.metrics.Precision(name="precision"),
        keras.metrics.Recall(name="recall"),
    ]
    y = (np.arange(NUM_SAMPLES) % 7 == 3).astype("int32")[:, None]
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=metrics)
    history = model.fit(numbers(5), y, class_weight={0: 0.07, 1: 0.5}, **FIT)
    return shown(model, history=history, score=model.evaluate(numbers(5), y, verbose=0))


@example("structured data", "TabTransformer: attention over the columns of categories")
def tab_transformer(tnt: Any) -> Values:
    categories, values = keras.Input((3,), dtype="int32"), keras.Input((2,))
    x = layers.Embedding(5, 4)(categories)
    x = layers.LayerNormalization()(layers.add([x, layers.MultiHeadAttention(2, 2)(x, x)]))
    x = layers.concatenate([layers.Flatten()(x), layers.LayerNormalization()(values)])
    x = layers.Dropout(0.2)(layers.Dense(4, activation="gelu")(x))
    model = keras.Model([categories, values], layers.Dense(1, activation="sigmoid")(x))
    model = tnt.Model(model)
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=1e-4, epsilon=1e-3)
    loss = keras.losses.BinaryCrossentropy()
    model.compile(optimizer, loss, weighted_metrics=[keras.metrics.BinaryAccuracy(name="hits")])
    codes = np.random.default_rng(9).integers(0, 5, (NUM_SAMPLES, 3)).astype("int32")
    weights = np.linspace(0.2, 2.0, NUM_SAMPLES).astype("float32")
    y = labels(2).astype("float32")[:, None]
    history = model.fit([codes, numbers(2)], y, sample_weight=weights, **FIT)
    return shown(model, history=history)


@example("structured data", "gated residual and variable selection networks")
def gated_residual_network(tnt: Any) -> Values:
    def gated(x: Any, width: int) -> Any:
        inner = layers.Dense(width)(layers.Dropout(0.1)(layers.Dense(width, "elu")(x)))
        gate = layers.multiply([layers.Dense(width)(inner), layers.Dense(width, "sigmoid")(inner)])
        return layers.LayerNormalization()(layers.add([layers.Dense(width)(x), gate]))

    inputs = [keras.Input((2,)) for _ in range(3)]
    choice = layers.Dense(3, "softmax")(gated(layers.concatenate(inputs), 4))
    stacked = keras.ops.stack([gated(each, 4) for each in inputs], axis=1)
    chosen = keras.ops.sum(stacked * keras.ops.expand_dims(choice, -1), axis=1)
    model = keras.Model(inputs, layers.Dense(1, "sigmoid")(chosen))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=["accuracy"])
    columns = [numbers(2, seed=seed) for seed in range(3)]
    history = model.fit(columns, labels(2).astype("float32")[:, None], **FIT)
    return shown(model, history=history)
