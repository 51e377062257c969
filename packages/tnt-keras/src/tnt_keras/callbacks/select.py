"""Select the callbacks of this rank: the user's, and those that Tarantella adds.

On several ranks the user's run in lockstep. A report tells how much of the time of steps was
communication, and marks show steps in the timeline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

import tnt_comm
from tnt_comm import timeline
from tnt_keras.callbacks import ranks
from tnt_keras.callbacks.lockstep import STEPS, Lockstep
from tnt_keras.callbacks.ranks import Callback, unwrapped
from tnt_keras.calls.messages import allgather
from tnt_keras.process.loggers import logger_in_place_of
from tnt_keras.process.rank import get_size, is_master_rank, logger

_PROGRESS = keras.callbacks.ProgbarLogger
_OF_KERAS = (keras.callbacks.History, _PROGRESS)
"""Keras adds them to a list that has none."""
_AT_BATCH_BEGIN = ("on_batch_begin", *(f"on_{kind}_batch_begin" for kind in STEPS))


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
        # Keras looks for a callback of its own, such as a progress bar, without a wrapper.
        found = [unwrapped(one) if _is_of_keras(unwrapped(one)) else one for one in given]
        if not (marks or before or after or found != given):
            return callbacks
        return [*marks, *before, *found, *after]
    refuse_own_list(callbacks)
    given = as_list(callbacks)
    of_ranks = [_on_its_ranks(one) for one in given]
    kept = [c for c in of_ranks if is_master_rank() or not isinstance(c, _PROGRESS)]
    if lockstep:
        kept = _in_lockstep(given, kept)
    report = [CommunicationReport()] if training and logger.isEnabledFor(logging.INFO) else []
    return [*marks, *before, *first, *kept, *after, *report]


def _on_its_ranks(given: keras.callbacks.Callback) -> keras.callbacks.Callback:
    """Return the callback, wrapped if it does not run on all ranks."""
    is_wrapped, callback = isinstance(given, Callback), unwrapped(given)
    if _is_of_keras(callback):
        return callback
    if isinstance(callback, keras.callbacks.TensorBoard):
        return ranks.tensorboard_on_its_ranks(given)
    if not is_wrapped:
        return Callback(given, run_on_all_ranks=False) if ranks.is_writer(given) else given
    if isinstance(callback, ranks.FILE_WRITERS) and given.aggregate_logs:
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
    checkpoints = sum(map(ranks.saves_on_all_ranks, kept))
    switches = [any(map(_acts_at_batch_begin, given)), bool(given), needs_own_logs, checkpoints]
    logger_of_fit = logger_in_place_of(keras.Model.fit) or ""
    of_ranks = allgather("callbacks", bytes(switches) + logger_of_fit.encode())
    ranks.check_checkpoints([flags[3] for flags in of_ranks])
    ranks.warn_of_loggers([flags[len(switches) :].decode() or None for flags in of_ranks])
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
            "On several ranks, and with `BackupAndRestore`, Tarantella takes a `CallbackList` "
            f"apart, so what the methods of {type(callbacks).__name__} do would be lost. Do it in "
            "a `keras.callbacks.Callback`, and pass a list."
        )


def takes_others(callbacks: Any) -> bool:
    """Return whether others can join callbacks given as to Keras without a change of these. Local.

    On one rank a list of a user's own class stays what it is.
    """
    return get_size() > 1 or type(callbacks) in (type(None), list, tuple)


def _acts_at_batch_begin(callback: keras.callbacks.Callback) -> bool:
    """Return whether code of the user runs before each step; that of Keras calls no collective."""
    callback = unwrapped(callback)
    cls = type(callback)
    return any(
        name in vars(callback) or not getattr(cls, name).__module__.startswith("keras.")
        for name in _AT_BATCH_BEGIN
    )


class CommunicationReport(keras.callbacks.Callback):
    """Measure the steps of a `fit` and log the share of communication at its end, at INFO.

        communication 8.1 % of step, 92 % hidden

    Of all training steps of this rank together,

        share of communication = communication time / step time
        hidden share           = 1 - waiting time / communication time.

    The *step time* is that between Keras' calls at the begin and end of a batch: fetching it, the
    step itself, and what callbacks do at its end. *Communication time* is that in which at least
    one exchange was under way, from when this rank handed over a bucket until its sum was complete,
    so it includes waiting for ranks that are behind. *Waiting time* is that in which a thread of
    this rank waited. See `tnt_comm.Counters`. It must be the last callback, so that what others
    communicate counts too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._step_s = 0.0
        self._total = tnt_comm.Counters()
        self._begin: tuple[float, tnt_comm.Counters] | None = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Start the clock of a step. Local."""
        self._begin = (time.perf_counter(), tnt_comm.counters())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Add the time of the step to the totals. Local."""
        if self._begin is not None:
            begin_s, before = self._begin
            self._step_s += time.perf_counter() - begin_s
            self._total += tnt_comm.counters() - before
            self._begin = None

    def on_train_end(self, logs: Any = None) -> None:
        """Log the line. Local."""
        if self._step_s > 0:
            logger.info("%s", describe(self._step_s, self._total))


def describe(step_s: float, total: tnt_comm.Counters) -> str:
    """Return the line for a step time > 0, in seconds. Pure."""
    return (
        f"communication {100 * total.communication_s / step_s:.1f} % of step, "
        f"{100 * total.hidden_share:.0f} % hidden"
    )


class TimelineMarks(keras.callbacks.Callback):
    """Show epochs and steps as slices of the timeline. Only used if there is one.

    A step is what Keras does between two calls of the callbacks: it fetches a batch and computes
    one step, or several with `steps_per_execution`.
    """


def _hook(mark: Callable[[str], None], name: str) -> Callable[..., None]:
    return lambda self, number, logs=None: mark(name)


for _part, _name in {"epoch": "epoch", **{f"{k}_batch": v for k, v in STEPS.items()}}.items():
    setattr(TimelineMarks, f"on_{_part}_begin", _hook(timeline.begin, _name))
    setattr(TimelineMarks, f"on_{_part}_end", _hook(timeline.end, _name))
