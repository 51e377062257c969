"""Select the callbacks of this rank: the user's, and those that Tarantella adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tnt_comm import timeline
from tnt_keras.callbacks.communication_report import CommunicationReport, TimelineMarks
from tnt_keras.callbacks.lockstep import Lockstep
from tnt_keras.callbacks.ranks import (
    FILE_WRITERS,
    Callback,
    check_checkpoints,
    is_writer,
    saves_on_all_ranks,
    tensorboard_on_its_ranks,
)
from tnt_keras.calls.messages import allgather
from tnt_keras.process.rank import get_size, is_master_rank

_PROGRESS = keras.callbacks.ProgbarLogger
_OF_KERAS = (keras.callbacks.History, _PROGRESS)
"""Keras adds them to a list that has none."""
_AT_BATCH_BEGIN = (
    "on_batch_begin",
    "on_train_batch_begin",
    "on_test_batch_begin",
    "on_predict_batch_begin",
)


def select_callbacks(
    callbacks: Any,
    *,
    training: bool,
    first: Sequence[keras.callbacks.Callback] = (),
    before: Sequence[keras.callbacks.Callback] = (),
    after: Sequence[keras.callbacks.Callback] = (),
    lockstep: bool = True,
) -> Any:
    """Return the callbacks that run on this rank. Collective on several ranks in lockstep.

    All run on every rank, with the same global logs, so that their decisions are equal; those that
    only write files or send data to a server run on the master rank, and a wrapped one where its
    wrapper says. Those in `first` run before the user's on several ranks, `before` and `after`
    before and after all on any number. Ranks are not in `lockstep` if each predicts for samples of
    its own.
    """
    marks = [TimelineMarks()] if timeline.is_on() else []
    if get_size() == 1:
        given = as_list(callbacks)
        wraps_own = any(isinstance(one, Callback) and _is_of_keras(one.callback) for one in given)
        if not (marks or wraps_own or before or after):
            return callbacks
        return [*marks, *before, *map(_on_one_rank, given), *after]
    refuse_own_list(callbacks)
    given = as_list(callbacks)
    of_ranks = [_on_its_ranks(one) for one in given]
    kept = [c for c in of_ranks if is_master_rank() or not isinstance(c, _PROGRESS)]
    if lockstep:
        kept = _in_lockstep(given, kept)
    report = [CommunicationReport()] if training and CommunicationReport.is_wanted() else []
    return [*marks, *before, *first, *kept, *after, *report]


def _on_one_rank(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
    """Return a callback that Keras looks for, such as a progress bar, without its wrapper."""
    wraps_own = isinstance(callback, Callback) and _is_of_keras(callback.callback)
    return callback.callback if wraps_own else callback


def _on_its_ranks(given: keras.callbacks.Callback) -> keras.callbacks.Callback:
    """Return the callback, wrapped if it does not run on all ranks."""
    is_wrapped = isinstance(given, Callback)
    callback = given.callback if is_wrapped else given
    if _is_of_keras(callback):
        return callback
    if isinstance(callback, keras.callbacks.TensorBoard):
        return tensorboard_on_its_ranks(given)
    if not is_wrapped:
        return Callback(given, run_on_all_ranks=False) if is_writer(given) else given
    if isinstance(callback, FILE_WRITERS) and given.aggregate_logs:
        return Callback(callback, run_on_all_ranks=False)  # all ranks would write the same
    return given


def _is_of_keras(callback: keras.callbacks.Callback) -> bool:
    return isinstance(callback, _OF_KERAS)


def _in_lockstep(
    given: list[keras.callbacks.Callback], kept: list[keras.callbacks.Callback]
) -> list[keras.callbacks.Callback]:
    """Return one callback that runs those of this rank, and those that Keras looks for.

    Ranks may have different callbacks: what they have to agree on depends on those of all.
    """
    needs_own_logs = any(isinstance(one, Callback) and not one.aggregate_logs for one in given)
    checkpoints = sum(map(saves_on_all_ranks, kept))
    own = bytes([any(map(_acts_at_batch_begin, given)), bool(given), needs_own_logs, checkpoints])
    of_ranks = allgather("callbacks", own)
    check_checkpoints([flags[3] for flags in of_ranks])
    lockstep = Lockstep(
        [one for one in kept if not _is_of_keras(one)],
        at_batch_begin=any(flags[0] for flags in of_ranks),
        compares_weights=any(flags[1] for flags in of_ranks),
        keeps_own_logs=any(flags[2] for flags in of_ranks),
    )
    return [lockstep, *filter(_is_of_keras, kept)]


def as_list(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Return callbacks given as to Keras; a `CallbackList` is taken apart. Local."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = callbacks.callbacks
    given = keras.tree.flatten(callbacks) if callbacks is not None else []
    for each in given:
        if not hasattr(each, "set_model"):
            raise TypeError(
                f"`callbacks` must be objects of `keras.callbacks.Callback`. Received: {each!r}."
            )
    return given


def refuse_own_list(callbacks: Any) -> None:
    """Refuse a list of a class derived from `CallbackList`, which must be taken apart. Local."""
    if isinstance(callbacks, keras.callbacks.CallbackList) and (
        type(callbacks) is not keras.callbacks.CallbackList
    ):
        raise ValueError(
            "On several ranks, and with `BackupAndRestore`, a `CallbackList` is taken apart, so "
            f"that what the methods of {type(callbacks).__name__} do would be lost. Do it in a "
            "`keras.callbacks.Callback`, and give a list."
        )


def _acts_at_batch_begin(callback: keras.callbacks.Callback) -> bool:
    """Return whether code of the user runs before each step; that of Keras calls no collective."""
    if isinstance(callback, Callback):
        callback = callback.callback
    cls = type(callback)
    return any(
        name in vars(callback) or not getattr(cls, name).__module__.startswith("keras.")
        for name in _AT_BATCH_BEGIN
    )
