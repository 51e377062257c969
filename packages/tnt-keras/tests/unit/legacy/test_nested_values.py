"""Values of nests as arrays to send."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_keras.legacy.tensor_collectives import as_array, halves_of, joined_halves, leaf_of

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64, min_size=1, max_size=20))
def test_halves_add_up_to_the_sum_of_ints(values: list[int]) -> None:
    halves = [halves_of(as_array(value)) for value in values]
    assert all(half.dtype == np.int64 for half in halves)
    assert joined_halves(np.sum(halves, axis=0)) == sum(values)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 10**30])
def test_an_int_of_more_than_64_bits_is_named(value: int) -> None:
    with pytest.raises(ValueError, match=rf"must be in \[-2\*\*63, 2\*\*63\).*{value}"):
        leaf_of(value)
