"""The end of a process whose datasets call Python code."""

from __future__ import annotations

import atexit
import functools
import gc
import sys


@functools.cache
def free_iterators_at_exit() -> None:
    """Free iterators over datasets before Python ends. Local; only the first call does anything.

    To free an iterator TensorFlow waits for the calls of Python code that are under way. Once
    Python is about to end, no thread of TensorFlow's gets into it any more, and the process would
    wait for ever. An error keeps the iterators of the frames that it has gone through.
    """
    atexit.register(_free_iterators)


def _free_iterators() -> None:
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
