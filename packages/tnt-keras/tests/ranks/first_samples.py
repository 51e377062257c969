"""Samples that ranks gather, and which of them are theirs, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier
from classifiers import samples as classified

import tnt_data
import tnt_keras
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.probe.samples import first_samples
from tnt_keras.probe.samples.first_element import FirstElement
from tnt_keras.step.local_batch import CheckedBatch, LocalBatch


def batch_of(numbers: Iterable[int], width: int = 2) -> Any:
    """A batch with one row for each number: tensors of all kinds in a structure."""
    rows = np.array(list(numbers), np.int64)
    lengths = rows % 4
    columns = rows[:, np.newaxis] + np.arange(1, width + 1)
    ragged = tf.RaggedTensor.from_row_lengths(np.repeat(rows, lengths), lengths)
    doubly_ragged = tf.RaggedTensor.from_row_splits(
        tf.RaggedTensor.from_row_lengths(tf.repeat(tf.cast(rows, tf.float32), 2), lengths * 0 + 2),
        np.arange(len(rows) + 1),
    )
    inputs = {
        "float": tf.constant(columns / 3, tf.float32),
        "text": tf.strings.as_string(columns),
        "bool": tf.constant(rows % 3 == 0),
        "bfloat16": tf.cast(columns, tf.bfloat16),
        "float16": tf.cast(columns[..., np.newaxis], tf.float16),
        "ragged": ragged,
        "doubly ragged": doubly_ragged,
        "sparse": tf.sparse.from_dense(np.where(columns % 2, columns, 0)),
        "text in sparse": tf.sparse.map_values(
            tf.strings.as_string, tf.sparse.from_dense(np.where(columns % 3, columns, 0))
        ),
        "nothing": None,
    }
    return inputs, (rows, tf.constant(0.5)), None


def as_data(structure: Any) -> list[Any]:
    """Components as something that can be sent and compared: what it is, and its values."""
    return [_as_data(leaf) for leaf in tf.nest.flatten(structure)]


def _as_data(leaf: Any) -> Any:
    if leaf is None:
        return None
    if isinstance(leaf, tf.RaggedTensor):
        return "ragged", leaf.dtype.name, leaf.ragged_rank, leaf.to_list()
    if isinstance(leaf, tf.SparseTensor):
        entries = sorted(
            zip(leaf.indices.numpy().tolist(), leaf.values.numpy().tolist(), strict=True)
        )
        return "sparse", leaf.dtype.name, leaf.dense_shape.numpy().tolist(), entries
    leaf = tf.convert_to_tensor(leaf)
    return "dense", leaf.dtype.name, leaf.numpy().tolist()


def gathered(element: Any, max_rows: int) -> Any:
    """What `gather_samples` returns, as data."""
    result = first_samples.gather_samples(element, max_rows)
    if result is None:
        return None
    return as_data(result.all_rows), result.rows.tolist(), result.num_rows


def of_global_batches(kind: str, sizes: Sequence[int]) -> list[Any]:
    """Of a micro-batch, a checked batch or a global one, for some sizes of the global batch."""
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()

    def element(num_global: int) -> Any:
        own = range(num_global)[rank::size]
        if kind == "global":
            return batch_of(range(num_global))
        part = tnt_data.MicroBatch(
            batch_of(own or [0]), tf.constant(len(own), tf.int64), tf.constant(num_global, tf.int64)
        )
        return part if kind == "micro-batch" else CheckedBatch(part)

    return [gathered(element(num_global), 2 * size + 1) for num_global in sizes]


def of_own_batches(counts_of_ranks: Sequence[Sequence[int]]) -> list[Any]:
    """Of batches with any number of rows on each rank; row i of rank r is the number 10 r + i."""
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    return [
        gathered(LocalBatch(batch_of(range(10 * rank, 10 * rank + counts[rank]))), 2 * size + 1)
        for counts in counts_of_ranks
    ]


def of_padded_batches() -> Any:
    """Of batches whose rows are longer on higher ranks."""
    rank = tnt_keras.get_rank()
    rows = tf.ones([2, 1 + rank], tf.int32), tf.fill([2, 1 + rank], "word")
    return gathered(LocalBatch(rows), 5)


def of_a_dataset() -> list[Any]:
    """Of all batches of a distributed dataset of 7 samples in batches of 4, on its own types."""
    data = tf.data.Dataset.range(7).map(lambda i: (i, tf.strings.as_string(i))).batch(4)
    parts = tnt_data.distribute(data, tnt_keras.get_rank(), tnt_keras.get_size())
    return [gathered(part, 3) for part in parts]


def bytes_sent() -> list[int]:
    """The lengths of the messages for a batch of 3 MB, with rows of 4 KB."""
    lengths: list[int] = []

    def counting(name: str, message: bytes) -> list[bytes]:
        lengths.append(len(message))
        return allgather(name, message)

    allgather = first_samples.allgather
    size = tnt_keras.get_size()
    part = tnt_data.MicroBatch(tf.ones([768 // size, 1024]), 768 // size, 768)
    with replaced(first_samples, "allgather", counting):
        first_samples.gather_samples(part, 2 * size + 1)
    return lengths


def where_a_rank_differs(how: str) -> Any:
    """Of parts that do not belong together: what is returned, or the error's words."""
    differs = tnt_keras.get_rank() == 1
    part = tnt_data.MicroBatch(tf.ones([2, 3]), 2, 4)
    odd = {
        "no data": None,
        "other size": part._replace(num_global=5),
        "other fingerprint": part._replace(fingerprint=1),
        "other dtype": part._replace(data=tf.ones([2, 3], tf.float64)),
        "other structure": part._replace(data=(tf.ones([2, 3]), None)),
    }
    try:
        return gathered(odd[how] if differs else part, 5)
    except ValueError as error:
        return str(error)


def during_training(kind: str, looks: bool) -> Any:
    """What is gathered at the first step of each epoch, and the weights after training."""
    x, y = classified(22)
    model = classifier(distributed=True)
    gathered_rows: list[Any] = []
    wants: list[bool] = []

    def look(element: Any) -> None:
        wants.clear()
        gathered_rows.append(gathered(element, 5))

    if looks:
        model.make_train_function()
        model.train_function = FirstElement(model.train_function, look, lambda _: bool(wants))
    begin = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: wants.append(True))
    own = slice(tnt_keras.get_rank(), None, tnt_keras.get_size())
    data: dict[str, dict[str, Any]] = {
        "arrays": {"x": x, "y": y, "batch_size": 5},
        "generator": {"x": _batches(x, y), "steps_per_epoch": 3},
        "own": {
            "x": tf.data.Dataset.from_tensor_slices((x[own], y[own])).batch(4),
            "tnt_distribute_dataset": False,
        },
    }
    model.fit(**data[kind], shuffle=False, epochs=2, verbose=0, callbacks=[begin])
    return gathered_rows, model.get_weights()


def _batches(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        yield from zip(np.split(x, [6, 12, 13, 19]), np.split(y, [6, 12, 13, 19]), strict=True)
