"""Arrays as input: converted as by Keras; each rank takes only its own rows out of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import of_master
from tnt_keras.calls.messages import allgather_json
from tnt_keras.process.rank import MASTER_RANK
from tnt_keras.step.batch import in_order_of_rows, rows_at, spread_positions


def is_array(leaf: Any) -> bool:
    """Return whether something is an array or tensor of samples. Local."""
    if isinstance(leaf, tf.RaggedTensor) or is_sparse(leaf):
        return True
    return hasattr(leaf, "__array__") and len(leaf.shape) > 0


def is_sparse(leaf: Any) -> bool:
    """Return whether something is a sparse tensor, or a sparse matrix of SciPy. Local."""
    return isinstance(leaf, tf.SparseTensor) or _is_of_scipy(leaf)


def _is_of_scipy(leaf: Any) -> bool:
    return hasattr(leaf, "tocsr") and hasattr(leaf, "shape")


def num_rows(leaf: Any) -> int:
    """Return the number of samples in an array or tensor. Local."""
    return int(leaf.nrows() if isinstance(leaf, tf.RaggedTensor) else leaf.shape[0])


def without_pandas(leaf: Any) -> Any:
    """Return the array that Keras makes of pandas, `(samples, 1)` of a `Series`. Local."""
    pandas = sys.modules.get("pandas")  # without it, nothing is an object of pandas
    if pandas is None or not isinstance(leaf, (pandas.DataFrame, pandas.Series)):
        return leaf
    is_table = isinstance(leaf, pandas.DataFrame)
    dtypes = leaf.dtypes if is_table else [leaf.dtype]
    if any(_is_other_float(dtype) for dtype in dtypes):
        leaf = leaf.astype(keras.config.floatx())
    array = leaf.to_numpy()
    return array if is_table else np.expand_dims(array, -1)


def as_tensor(leaf: Any) -> Any:
    """Return the tensor that a step of Keras receives: floating-point numbers are `floatx`. Local.

    What is sparse becomes a sparse tensor with its entries in the order of rows; None stays None.
    """
    if leaf is None:
        return None
    if is_sparse(leaf):
        leaf = tf.sparse.reorder(_of_scipy(leaf) if _is_of_scipy(leaf) else leaf)
    floatx = keras.config.floatx()
    if tf.is_tensor(leaf):
        return tf.cast(leaf, floatx) if _is_other_float(leaf.dtype) else leaf
    array = np.asarray(without_pandas(leaf))
    return tf.convert_to_tensor(array.astype(floatx) if _is_other_float(array.dtype) else array)


def _of_scipy(matrix: Any) -> tf.SparseTensor:
    entries = matrix.tocsr().tocoo()  # entries at one place are added up by the first
    indices = np.stack([entries.row, entries.col], axis=1).astype(np.int64)
    return tf.SparseTensor(indices, entries.data, entries.shape)


def _is_other_float(dtype: Any) -> bool:
    """Return whether Keras casts a dtype: any floating-point one but `floatx`."""
    try:
        known = tf.as_dtype(dtype)
    except TypeError:  # such as a category of pandas
        return False
    return bool(known.is_floating and known.name != keras.config.floatx())


SEED = 42
"""For shuffles without a seed, and for the order of arrays in the first `fit`."""

Seeds = tuple[int, int]
"""The two numbers from which an operation of TensorFlow draws."""

IN_BATCHES = "batch"
"""The value of `shuffle` for which Keras mixes rows inside of each batch alone."""

_as_it_is = tf.autograph.experimental.do_not_convert  # which takes seconds, for no loop or branch


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Samples in arrays, with a dataset of their positions.

    Ranks share positions, since a rank then pays next to nothing for the rows of others. `arrays`
    is a structure of tensors of shape `(samples, ...)`, of which a step receives batches.
    """

    arrays: Any

    @classmethod
    def pack(cls, x: Any, y: Any, sample_weight: Any) -> Arrays:
        """Pack the arrays of a method of Keras; one of weights counts for all targets. Local."""
        sample_weight = _for_each_target(sample_weight, y)
        element = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        element = keras.tree.lists_to_tuples(element)  # tf.data takes a list for a tensor
        arrays = tf.nest.map_structure(as_tensor, element)
        if len({num_rows(leaf) for leaf in _leaves(arrays)}) != 1:
            named = {"x": x, "y": y, "sample_weight": sample_weight}
            parts = {
                name: [num_rows(without_pandas(leaf)) for leaf in _leaves(part)]
                for name, part in named.items()
            }
            raise ValueError(
                "All arrays must have the same number of samples. Received: "
                + "; ".join(f"{name}: {str(n)[1:-1]}" for name, n in parts.items() if n)
                + "."
            )
        return cls(arrays)

    @property
    def num_samples(self) -> int:
        """Number of samples."""
        return num_rows(_leaves(self.arrays)[0])

    def positions(self, batch_size: int, *, shuffle: bool) -> tf.data.Dataset:
        """Return batches of positions, in order or shuffled differently in each pass. Local."""
        positions = tf.data.Dataset.range(self.num_samples)
        if shuffle:
            positions = positions.shuffle(max(1, self.num_samples))
        return positions.batch(batch_size)

    def positions_as_keras_shuffles(self, batch_size: int, seeds: Seeds) -> tf.data.Dataset:
        """Return batches of positions in the order that Keras draws from a global seed. Local.

        That is one permutation, drawn anew, and alike, in each pass.
        """
        first, second = seeds
        num_batches = -(-self.num_samples // batch_size)

        @_as_it_is
        def permutation(_: tf.Tensor) -> tf.Tensor:
            positions = tf.range(self.num_samples, dtype=tf.int64)
            return tf.raw_ops.RandomShuffle(value=positions, seed=first, seed2=second)

        @_as_it_is
        def batches_of(order: tf.Tensor) -> tf.data.Dataset:
            begins = tf.data.Dataset.range(0, self.num_samples, batch_size)
            return begins.map(_as_it_is(lambda begin: order[begin : begin + batch_size]))

        orders = tf.data.Dataset.range(1).map(permutation).prefetch(1)
        batches = orders.flat_map(batches_of)
        return batches.apply(tf.data.experimental.assert_cardinality(num_batches))

    def positions_mixed_in_batches(self, batch_size: int, seeds: Seeds) -> tf.data.Dataset:
        """Return batches of positions in the order of the arrays, each mixed in itself. Local."""
        first, second = seeds

        @_as_it_is
        def mixed(batch: tf.Tensor) -> tf.Tensor:
            return tf.raw_ops.RandomShuffle(value=batch, seed=first, seed2=second)

        return self.positions(batch_size, shuffle=False).map(mixed)

    def rows_at(self, positions: tf.Tensor) -> Any:
        """Return the samples at int64 positions of shape `(rows,)`. Local."""
        return tf.nest.map_structure(
            lambda leaf: None if leaf is None else rows_at(leaf, positions), self.arrays
        )

    def digests(self, rows: int | None = None) -> list[bytes]:
        """Return what tells inputs, targets and weights, in all rows or some of them. Local."""
        parts = keras.utils.unpack_x_y_sample_weight(self.arrays)
        return [digest_of(part, rows) for part in parts]

    @property
    def batch_spec(self) -> Any:
        """Specs of a batch."""
        return tf.data.Dataset.range(1).batch(1).map(_as_it_is(self.rows_at)).element_spec


def split_off_last(arrays: Any, fraction: float) -> tuple[Any, Any]:
    """Split off the last samples for validation, a part in (0, 1), as Keras does. Local."""
    arrays = keras.tree.map_structure(without_pandas, arrays)
    num_samples = num_rows(next(leaf for leaf in keras.tree.flatten(arrays) if leaf is not None))
    at = math.floor(num_samples * (1.0 - fraction))
    if not 0 < at < num_samples:
        raise ValueError(
            f"`validation_split={fraction}` of {num_samples} samples leaves one part empty."
        )

    def cut(rows: range) -> Any:
        return keras.tree.map_structure(functools.partial(_rows_in, rows), arrays)

    return cut(range(at)), cut(range(at, num_samples))


def _rows_in(rows: range, leaf: Any) -> Any:
    if leaf is None or not is_sparse(leaf):
        return leaf if leaf is None else leaf[rows.start : rows.stop]
    return rows_at(as_tensor(leaf), tf.constant(rows, tf.int64))


def _for_each_target(sample_weight: Any, y: Any) -> Any:
    """Return weights in the structure of the targets, as Keras gives them to a step."""
    if sample_weight is None or not keras.tree.is_nested(y):
        return sample_weight
    if isinstance(sample_weight, (list, tuple, dict)):
        try:
            keras.tree.assert_same_structure(y, sample_weight)
        except ValueError:
            raise ValueError(
                "`sample_weight` must have the structure of `y`: one array for each target, or one "
                "for all."
            ) from None
        return sample_weight
    if tuple(sample_weight.shape[1:]) not in ((), (1,)):
        raise ValueError(
            "One `sample_weight` for several targets must hold one number for each sample. "
            f"Received: shape {tuple(sample_weight.shape)}."
        )
    return keras.tree.map_structure(lambda _: sample_weight, y)


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for leaf in tf.nest.flatten(arrays) if leaf is not None]


def digest_of(component: Any, rows: int | None = None, numbers: int | None = None) -> bytes:
    """Return a digest of arrays and tensors, of all or about so many rows and numbers in each."""
    digest = hashlib.sha1(usedforsecurity=False)
    for leaf in _leaves(component):
        if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
            positions = spread_positions(num_rows(leaf), rows or sys.maxsize)
            some = rows_at(in_order_of_rows(leaf), positions)
            arrays = [part.numpy() for part in tf.nest.flatten(some, expand_composites=True)]
        else:
            array = np.asarray(leaf)
            arrays = [array[:: max(1, len(array) // rows)] if rows and array.ndim else array]
        for array in arrays:
            if numbers and array.ndim > 1 and array[:1].size > numbers:
                array = array.reshape(len(array), -1)[:, :: array[0].size // numbers]
            values = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
            digest.update(f"{array.shape}".encode() + values)
    return digest.digest()


def seeds_of_keras() -> Seeds | None:
    """Return the seeds with which Keras shuffles arrays, None without a global seed. Local.

    It does so by the first random operation of a traced function.
    """
    found: list[tuple[int | None, int | None]] = []

    @tf.autograph.experimental.do_not_convert
    def look(element: tf.Tensor) -> tf.Tensor:
        with contextlib.suppress(RuntimeError):  # deterministic operations, which need a seed
            found.append(tf.compat.v1.random.get_seed(None))
        return element

    tf.data.Dataset.range(1).map(look)
    first, second = found[0] if found else (None, None)
    return None if first is None or second is None else (first, second)


def seeds_of_master() -> Seeds | None:
    """Return `seeds_of_keras` of the master rank. Collective.

    So `keras.utils.set_random_seed(seed + rank)` gives the order of the serial run.
    """
    seeds: Seeds | None = of_master("the seed of the order", seeds_of_keras())
    return seeds


def difference_of_global_seeds() -> str:
    """Say which rank has another global seed than the master, and what to do. Collective."""
    own = seeds_of_keras()
    of_ranks = allgather_json("global seeds", "not set" if own is None else own[0])
    for rank, seed in enumerate(of_ranks):
        if seed != of_ranks[MASTER_RANK]:
            return (
                "TensorFlow's global seed, which shuffles take when they are created, is "
                f"{of_ranks[MASTER_RANK]} on rank {MASTER_RANK} and {seed} on rank {rank}, as "
                "after `keras.utils.set_random_seed(seed + rank)`: set the same seed on all "
                "ranks before you create the dataset."
            )
    return ""
