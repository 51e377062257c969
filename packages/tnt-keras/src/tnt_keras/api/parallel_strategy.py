"""The strategies of parallelism of the original Tarantella, of which one is left.

It needs no TensorFlow.
"""

from __future__ import annotations

import enum


class ParallelStrategy(enum.Flag):
    """How `tnt.Model` spreads a model over ranks.

    Attributes:
        NONE: Not at all; `tnt.Model` returns the model as it is.
        DATA: Every rank holds the whole model and computes its part of each batch.
        PIPELINING: Every rank holds some layers. Not implemented.
        ALL: Both. Not implemented.
    """

    NONE = 0
    DATA = enum.auto()
    PIPELINING = enum.auto()
    ALL = DATA | PIPELINING


def is_distributing(strategy: ParallelStrategy) -> bool:
    """Return whether a strategy makes a model a distributed one; refuse pipelining. Pure."""
    if not isinstance(strategy, ParallelStrategy):
        raise TypeError(
            "`parallel_strategy` must be a `tnt.ParallelStrategy`. "
            f"Received: parallel_strategy={strategy!r}."
        )
    if ParallelStrategy.PIPELINING in strategy:
        raise NotImplementedError(
            "Pipelining is not implemented, so a model must fit into the memory of each rank: "
            f"pass `tnt.ParallelStrategy.DATA`. Received: parallel_strategy={strategy}."
        )
    return ParallelStrategy.DATA in strategy
