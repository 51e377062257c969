"""Find the cause of an error that has to do with other ranks.

TensorFlow puts the text of the cause into the description of a graph and changes its class. Here
the cause becomes an error of its own class again.
"""

from __future__ import annotations

import re

import tensorflow as tf

import tnt_comm
from tnt_keras.collectives.errors import (
    DifferentInputError,
    DifferentWeightsError,
    OtherRankError,
)

# The names that `kernel.cpp` writes before the text of tnt-comm.
_KINDS: dict[str, type[Exception]] = {
    "UsageError": ValueError,
    "CommError": tnt_comm.CommError,
    "CommTimeoutError": tnt_comm.CommTimeoutError,
    "PeerLostError": tnt_comm.PeerLostError,
    "MismatchError": tnt_comm.MismatchError,
}
_CAUSE = re.compile(rf"(?:^|[\s:])({'|'.join(_KINDS)}): (.*?)(?=\n?\s*\[\[|\n\t|\Z)", re.DOTALL)

MARK_OF_CHECKS = "Wrong data on several ranks: "
"""Distinguishes assertions of ours in the graph of a step from those of a user."""
_FAILED_CHECK = re.compile(rf"assertion failed: \[{MARK_OF_CHECKS}(.*?)\]", re.DOTALL)


def cause_of(error: Exception) -> Exception | None:
    """Return the cause of an error as one of tnt-comm or of Python. Pure.

    Args:
        error: What a collective call raised.

    Returns:
        The cause; None if the error has nothing to do with other ranks, such as one that the user's
        own code raised.
    """
    if isinstance(error, (tnt_comm.CommError, OtherRankError)):
        return error
    if isinstance(error, DifferentInputError):
        return ValueError(str(error))
    if isinstance(error, DifferentWeightsError):
        return RuntimeError(str(error))
    failed = _FAILED_CHECK.search(str(error)) if isinstance(error, tf.errors.OpError) else None
    if failed is not None:
        return ValueError(failed.group(1))
    found = _CAUSE.search(str(error)) if isinstance(error, tf.errors.OpError) else None
    if found is None:
        return None
    name, text = found.groups()
    return _KINDS[name](text.strip())
