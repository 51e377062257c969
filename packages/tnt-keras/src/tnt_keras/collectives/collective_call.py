"""What makes a method a public call of all ranks: a common begin, and errors that can be read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tnt_keras.collectives.call import Call, running
from tnt_keras.collectives.failure import cause_of
from tnt_keras.collectives.messages import meet
from tnt_keras.collectives.one_thread import only_in_this_thread
from tnt_keras.collectives.user_frames import user_frames_of
from tnt_keras.process.rank import get_size

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(name: str) -> Callable[[_Method], _Method]:
    """Make a method a call that all ranks must make together; on one rank it stays as it is.

    Ranks meet when the call begins, so that a rank that makes another call, or none, is noticed at
    once. Failures of communication become errors that begin with the user's line and end with the
    cause; errors of the user's own code are left alone.

    Args:
        name: Of the call, for messages: "fit".
    """

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if get_size() == 1:
                return method(*args, **kwargs)
            with running(name) as this, only_in_this_thread(this.name, this.caller):
                try:
                    meet("begin")
                    return method(*args, **kwargs)
                except Exception as error:
                    told = _told(error, this)
                    if told is None:
                        raise
                    raise told.with_traceback(user_frames_of(error.__traceback__)) from None

        return call  # type: ignore[return-value]

    return decorate


def _told(error: Exception, call: Call) -> Exception | None:
    """Return the error that the user is to see instead; None if it is his own."""
    if error is call.told:
        told = error
    else:
        cause = cause_of(error)
        if cause is None:
            return None
        told = type(cause)(f"{call.caller}: {call.name}: {cause}")
    if call.outer is not None:
        call.outer.told = told
    return told
