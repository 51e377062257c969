"""Checks inside a step that the ranks' data fit together; a failed one becomes a `ValueError`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tensorflow as tf

_MARK = "Wrong data on several ranks: "  # tells our checks from those in a user's step
_FAILED = re.compile(
    rf"assertion failed: \[{_MARK}(.*?)\]((?: \[.*?\])*)(?:\n|\Z| \[\[)", re.DOTALL
)


def require(condition: tf.Tensor, sentence: str, values: Sequence[tf.Tensor] = ()) -> tf.Operation:
    """Make a step fail unless a condition holds; the public call then raises `ValueError`.

    Args:
        condition: bool scalar.
        sentence: Says what must hold and what to do about it. No square brackets.
        values: Shown behind the sentence.

    Returns:
        The operation of the check; None if it runs eagerly.
    """
    return tf.debugging.Assert(condition, [_MARK + sentence, *values], summarize=64)


def failed_check(text: str) -> str | None:
    """Return the sentence, with its values, of the check that an error stems from. Pure.

    Args:
        text: Text of a TensorFlow error.

    Returns:
        None if the error is not that of a check made by `require`.
    """
    found = _FAILED.search(text)
    if found is None:
        return None
    sentence, values = found.groups()
    return sentence + values.replace("[", "").replace("]", "")
