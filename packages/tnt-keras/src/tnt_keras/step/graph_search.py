"""Find out what a tensor of the graph that is being traced was computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import tensorflow as tf

# What ranks have combined is not any more what this rank has put in.
_COMBINING = {"TntFinishReduce", "TntFinishGather"}


def is_computed_from(
    tensors: Iterable[tf.Tensor], origins: Collection[tf.Operation], *, on_this_rank: bool = False
) -> bool:
    """Return whether one of some tensors was computed from the results of others. Local.

    What went through a variable is not seen.

    Args:
        tensors: Of the graph that is being traced.
        origins: The operations that made the others.
        on_this_rank: Whether only what did not pass through an exchange between ranks counts.
    """
    seen: set[tf.Operation] = set()
    to_visit = [tensor.op for tensor in tensors]
    while to_visit:
        operation = to_visit.pop()
        if operation in origins:
            return True
        if operation in seen or (on_this_rank and operation.type in _COMBINING):
            continue
        seen.add(operation)
        to_visit += [tensor.op for tensor in operation.inputs]
        to_visit += _captured(operation)
    return False


def _captured(operation: tf.Operation) -> list[tf.Operation]:
    """Return the operation outside a branch of `tf.cond` (say) whose result an input of it is."""
    captures = getattr(operation.graph, "captures", ()) if operation.type == "Placeholder" else ()
    return [
        outer.op
        for outer, inner in captures
        if inner.op is operation and not hasattr(outer, "numpy")  # eager ones come from nowhere
    ]
