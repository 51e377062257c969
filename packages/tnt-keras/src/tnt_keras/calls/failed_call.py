"""What follows when a call of all ranks has raised an error on this one.

If it raised on all ranks and the script catches it, ranks go on together. If it raised on some,
such as for their samples only, the others wait for them in it. So before its next message a rank
whose call has failed enters a barrier that only such ranks enter. Ranks in another call are a
mismatch at once; for those that stay in the failed one there is a deadline, after which all end
with the error.

An operation that runs on one rank alone, such as `tf.py_function`, cannot have failed on others, so
that rank ends their wait at once.
"""

from __future__ import annotations

import contextlib
import dataclasses

import tnt_comm
from tnt_comm.failure import one_line
from tnt_keras.calls.current_call import Call, current_call
from tnt_keras.calls.errors import with_text
from tnt_keras.process.rank import get_rank

PATIENCE_S = 60.0
"""How long other ranks may take to fail as well: compiling a step may take that long."""

_AT_ONCE_S = 1e-3


@dataclasses.dataclass(frozen=True)
class _Failure:
    """A call that has raised an error: its name, where it was made, and what of that error."""

    call: str
    caller: str
    kind: str
    message: str


_last: list[_Failure] = []  # at most one: collective calls are made in one thread


def note_failure(call: Call, error: Exception) -> None:
    """Remember by its text an error of a call that left communication intact. Local."""
    _last[:] = [_Failure(call.name, call.caller, type(error).__name__, _message_of(error))]


def give_up(error: Exception) -> None:
    """End the wait of others for this rank, which failed alone, and all communication. Local."""
    call = current_call()
    name, caller = ("step", "") if call is None else (call.name, call.caller)
    cause = _message_of(error)
    with contextlib.suppress(tnt_comm.CommError):  # which is what the others get
        tnt_comm.barrier(_AT_ONCE_S, label=f"{name}: after an error", caller=f"{caller} ({cause})")


def settle_failure() -> None:
    """Make sure that the call which failed on this rank has failed on all. Collective if it did."""
    if not _last:
        return
    failure = _last.pop()
    try:
        tnt_comm.barrier(
            PATIENCE_S,
            label=f"{failure.call}: after an error",
            caller=f"{failure.caller} ({failure.kind})",  # few words have room
        )
    except tnt_comm.CommTimeoutError as error:
        raise tnt_comm.CommTimeoutError(
            f"rank {get_rank()}: {failure.call} from {failure.caller} has failed on this rank and "
            f"not on all, so that others wait for it: {failure.kind}: {failure.message}. Let such "
            f"an error end the rank instead of going on. ({error})"
        ) from None
    except tnt_comm.PeerLostError as error:
        raise with_text(
            error,
            f"{error} (On this rank, {failure.call} from {failure.caller} had failed before: "
            f"{failure.kind}: {failure.message}. If it failed on some ranks only, that is why "
            "others have ended: let such an error end the rank instead of going on.)",
        ) from None


def _message_of(error: Exception) -> str:
    return one_line(error).partition(": ")[2][:300]
