"""The order of the global batch is found again in the concatenation of the ranks' parts."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tnt_keras.step.predictions import batch_order


@settings(deadline=None)  # the first call starts TensorFlow
@given(num_rows=st.integers(0, 40), size=st.integers(1, 9))
def test_rows_come_back_in_their_order(num_rows: int, size: int) -> None:
    batch = np.arange(num_rows) * 10
    by_rank = np.concatenate([batch[rank::size] for rank in range(size)])
    order = batch_order(tf.constant(num_rows, tf.int64), size).numpy()
    np.testing.assert_array_equal(by_rank[order], batch)
