"""Check inside a step that the ranks' data fit together; a failed check becomes a `ValueError`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tensorflow as tf

_MARK = "Wrong data on several ranks: "  # distinguishes our checks from those in a user's step
_FAILED = re.compile(
    rf"assertion failed: \[{_MARK}(.*?)\]((?: \[.*?\])*)(?:\n|\Z| \[\[)", re.DOTALL
)


class FailedCheckError(ValueError):
    """A check failed in a step that runs eagerly; in a graph it is an error of TensorFlow."""


def require(
    condition: tf.Tensor, sentence: str, values: Sequence[str | tf.Tensor] = ()
) -> tf.Operation | None:
    """Make a step fail unless a condition holds; the public call then raises `ValueError`. Local.

    Args:
        condition: bool scalar.
        sentence: Says what must hold and what to do about it. No square brackets.
        values: Numbers, and words about them, shown behind the sentence.

    Returns:
        The operation of the check, on which others can depend; None if it runs eagerly.
    """
    if tf.executing_eagerly():
        if not condition:
            raise FailedCheckError(" ".join([sentence, *map(_shown, values)]))
        return None
    return tf.debugging.Assert(condition, [_MARK + sentence, *values], summarize=64)


def _shown(value: str | tf.Tensor) -> str:
    return value if isinstance(value, str) else " ".join(map(str, value.numpy().ravel()))


def failed_check(error: Exception) -> str | None:
    """Return the sentence, with its values, of the check that an error stems from. Pure.

    Args:
        error: Any error that a step raised.

    Returns:
        None if it is not that of a check made by `require`.
    """
    if isinstance(error, FailedCheckError):
        return str(error)
    found = _FAILED.search(str(error)) if isinstance(error, tf.errors.OpError) else None
    if found is None:
        return None
    sentence, values = found.groups()
    return sentence + values.replace("[", "").replace("]", "")
