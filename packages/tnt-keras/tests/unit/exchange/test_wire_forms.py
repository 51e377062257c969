"""Tensors of every dtype are reduced by the dtypes that tnt-comm has, with the same bits."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from hypothesis import given
from hypothesis import strategies as st

from tnt_comm import TensorSpec
from tnt_keras.exchange import ops as exchanged
from tnt_keras.exchange.ops import wire_form

OPERATIONS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]

CASES = [
    *((kind, dtype) for kind in OPERATIONS for dtype in INTEGERS),
    *((kind, dtype) for kind in ("sum", "prod", "min", "max") for dtype in FLOATS),
    *((kind, dtype) for kind in ("sum", "prod") for dtype in COMPLEX),
    *((kind, "bool") for kind in ("min", "max", "and", "or")),
]
SHORT = [
    case
    for case in CASES
    # Each dtype in a sum, and each operation on all that travels in its own way.
    if case[0] == "sum" or case[1] in ("int8", "uint64", "bfloat16", "complex64", "bool")
]


def _array_of(raw: list[int], dtype: str) -> np.ndarray[Any, Any]:
    """Any bits of an integer; small whole numbers of other types, so that results are exact."""
    if dtype in INTEGERS:
        return np.array(raw, np.uint64).astype(dtype)
    if dtype in COMPLEX:
        return np.array([x % 7 - 3 + 1j * (x % 5 - 2) for x in raw]).astype(dtype)
    if dtype == "bool":
        return np.array([x % 2 == 1 for x in raw])
    return np.array([x % 7 - 3 for x in raw]).astype(_numpy_dtype(dtype))


def _numpy_dtype(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype


def _reduced(kind: str, arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):
        return reduce(OPERATIONS[kind], arrays)


@cases(("kind", "dtype"), SHORT, thorough=CASES)
@given(
    raw=st.lists(
        st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4), min_size=1, max_size=6
    )
)
def test_what_travels_gives_the_result_of_the_dtype(
    kind: str, dtype: str, raw: list[list[int]]
) -> None:
    values = [_array_of(row, dtype).reshape(2, 2) for row in raw]
    forms = [wire_form(kind, tf.constant(value)) for value in values]
    travelling = [np.asarray(form.value) for form in forms]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchanged, "get_size", lambda: len(values))
        if forms[0].kind == "gather":
            received = np.concatenate(travelling)
        else:
            TensorSpec("travels", travelling[0].dtype, 4)  # tnt-comm has this dtype
            received = _reduced(forms[0].kind, travelling)
        result = forms[0].restore(tf.constant(received))
    assert result.dtype.name == dtype
    np.testing.assert_array_equal(result, _reduced(kind, values))


class _Factor(str):
    """Its products tell in which order they were formed."""

    def __mul__(self, other: Any) -> _Factor:
        return _Factor(f"({self}{other})")


@pytest.mark.parametrize(
    ("num_ranks", "order"),
    [
        (1, "0"),
        (2, "(01)"),
        (3, "((01)2)"),
        (4, "((01)(23))"),
        (5, "((((01)2)3)4)"),
        (6, "(((01)(23))(45))"),
        (8, "(((01)(23))((45)(67)))"),
    ],
)
def test_products_of_complex_numbers_are_formed_in_the_order_of_other_reductions(
    num_ranks: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanged, "get_size", lambda: num_ranks)
    monkeypatch.setattr(tf, "unstack", lambda rows, num: [_Factor(str(i)) for i in range(num)])
    assert exchanged._product_of_rows(tf.zeros([num_ranks])) == order


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("sum", tf.constant(True)),
        ("sum", tf.constant("a")),
        ("max", tf.constant(1j)),
        ("and", tf.constant(1.0)),
        ("sum", tf.cast(1.0, tf.float8_e5m2) if hasattr(tf, "float8_e5m2") else tf.constant("a")),
    ],
    ids=repr,
)
def test_what_a_dtype_has_not_is_refused(kind: str, value: tf.Tensor) -> None:
    message = f"There is no '{kind}' over ranks for tensors of {value.dtype.name}."
    with pytest.raises(TypeError, match=message):
        wire_form(kind, value)
