"""Single arrays and tensors of samples, converted as Keras converts them."""

from __future__ import annotations

import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.step.batch_part import rows_at


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


def slice_rows(leaf: Any, part: slice) -> Any:
    """Return some rows of an array or tensor. Local."""
    if not is_sparse(leaf):
        return leaf[part]
    return rows_at(as_tensor(leaf), tf.range(*part.indices(num_rows(leaf)), dtype=tf.int64))


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
