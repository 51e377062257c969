"""Make a graph compute what nothing needs."""

from __future__ import annotations

import tensorflow as tf


def run_in_any_case(token: tf.Tensor) -> None:
    """Make a graph compute a token even if nothing needs it. Local.

    A graph drops operations whose tensors nobody reads, also if others wait for them, but runs
    stateful ones always. This one reads the token, and nothing waits for it, so that each result is
    used as soon as it exists.

    Args:
        token: As operations of `tnt_keras.collectives.ops` return it.
    """
    if not tf.executing_eagerly():
        tf.debugging.Assert(token >= 0, ["tokens are 0"])
