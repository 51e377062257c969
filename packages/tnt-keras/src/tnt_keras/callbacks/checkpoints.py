"""`ModelCheckpoint` on several ranks: all take part in saving, and the master rank alone writes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence

import keras

from tnt_keras.callbacks.wrapper import Callback
from tnt_keras.keras_hooks.patch import replaced


def saves_on_all_ranks(callback: keras.callbacks.Callback) -> bool:
    """Return whether a callback, wrapped or not, calls `save`, which needs all ranks. Local."""
    if isinstance(callback, Callback) and callback.run_on_all_ranks:
        callback = callback.callback
    return isinstance(callback, keras.callbacks.ModelCheckpoint)


def check_checkpoints(of_ranks: Sequence[int]) -> None:
    """Refuse other numbers of callbacks that save on some ranks, which would not wait. Pure.

    Raises:
        ValueError: If ranks have different numbers; says what to do.
    """
    if len(set(of_ranks)) > 1:
        rank = of_ranks.index(min(of_ranks))
        raise ValueError(
            f"Rank {rank} has fewer `ModelCheckpoint` callbacks than others. All ranks need it, "
            "as they all take part in saving; the master rank alone writes. Take it out of "
            "`if tnt.is_master_rank():`."
        )


@contextlib.contextmanager
def folder_of_all_ranks(callback: keras.callbacks.Callback) -> Iterator[None]:
    """Let all ranks make the folder of a checkpoint at the same time. Local.

    Keras looks whether it exists and then makes it; in between, another rank may have done so.
    """
    if not saves_on_all_ranks(callback):
        yield
        return
    with replaced(os, "makedirs", functools.partial(os.makedirs, exist_ok=True)):
        yield
