"""Graphs: a batch of small ones, padded to the same number of nodes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import FIT, NUM_SAMPLES, adam, labels, numbers, shown


def _graphs() -> tuple[np.ndarray, np.ndarray]:
    """Features of nodes, and matrices of edges."""
    edges = np.random.default_rng(2).integers(0, 2, (NUM_SAMPLES, 5, 5))
    return numbers(5, 3), np.minimum(edges + np.swapaxes(edges, 1, 2), 1).astype("float32")


class GraphConvolution(layers.Layer):
    """Sums messages of neighbours, divided by the number of these."""

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dense = layers.Dense(width, use_bias=False)

    def call(self, nodes: Any, edges: Any) -> Any:
        degrees = keras.ops.maximum(keras.ops.sum(edges, axis=-1, keepdims=True), 1.0)
        return keras.ops.relu(keras.ops.matmul(edges, self.dense(nodes)) / degrees)


@example("graphs", "molecules by a graph convolution network")
def graph_convolutions(tnt: Any) -> Values:
    nodes, edges = keras.Input((5, 3)), keras.Input((5, 5))
    x = GraphConvolution(4)(GraphConvolution(4)(nodes, edges), edges)
    model = keras.Model([nodes, edges], layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))
    model = tnt.Model(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(adam(), loss, metrics=["accuracy"])
    return shown(model, history=model.fit([*_graphs()], labels(), **FIT))


@example("graphs", "message passing with gated updates of nodes, and attention of edges")
def message_passing(tnt: Any) -> Values:
    class MessagePassing(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.messages, self.cell = layers.Dense(3), layers.GRUCell(3)

        def call(self, nodes: Any, edges: Any) -> Any:
            state = keras.ops.reshape(nodes, (-1, 3))
            for _ in range(2):
                nodes = keras.ops.reshape(state, (-1, 5, 3))
                scores = keras.ops.matmul(nodes, keras.ops.swapaxes(nodes, 1, 2))
                attention = keras.ops.softmax(scores - 1e3 * (1.0 - edges), axis=-1)
                messages = keras.ops.matmul(attention, self.messages(nodes))
                state, _ = self.cell(keras.ops.reshape(messages, (-1, 3)), [state])
            return keras.ops.reshape(state, (-1, 5, 3))

    nodes, edges = keras.Input((5, 3)), keras.Input((5, 5))
    x = layers.GlobalAveragePooling1D()(MessagePassing()(nodes, edges))
    model = keras.Model([nodes, edges], layers.Dense(1, activation="sigmoid")(x))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
    y = labels(2).astype("float32")[:, None]
    return shown(model, history=model.fit([*_graphs()], y, class_weight={0: 2.0, 1: 0.5}, **FIT))
