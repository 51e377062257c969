"""What a distributed dataset yields."""

from __future__ import annotations

from typing import Any, NamedTuple


class MicroBatch(NamedTuple):
    """One rank's part of one global batch.

    Attributes:
        data: The user's element with the rows of this rank, same structure, dtypes and trailing
            shapes as the serial batch. A rank without samples gets one row, a copy of the first
            sample.
        num_local: int64 scalar, number of samples of this rank, `RowSplit.num_rows(num_global)`; 0
            means that the row in `data` is a placeholder, which must not count.
        num_global: int64 scalar, number of samples of the global batch over all ranks.
        fingerprint: int64 scalar, equal on all ranks if all have read the same global batch; 0 if
            it was not asked for, or would differ between ranks in any case.
        shared: bool vector, which components of `data`, in the order of `tf.nest.flatten`, are
            whole on each rank, since their number of rows differs from the number of samples, such
            as nodes and edges of graphs. `()` if there can be none.
    """

    data: Any
    num_local: Any
    num_global: Any
    fingerprint: Any = 0
    shared: Any = ()
