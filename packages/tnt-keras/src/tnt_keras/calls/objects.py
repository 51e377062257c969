"""Python objects of all ranks, and code that the master rank runs before the others."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

import tnt_comm
from tnt_keras.calls.collective_call import collective_call
from tnt_keras.calls.current_call import user_line
from tnt_keras.calls.errors import of_other_rank
from tnt_keras.calls.together import gather
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size, is_master_rank

_NOT_SENT = (
    "the object of rank {rank} cannot be sent to other ranks, as it cannot be pickled: {error}. "
    "Send the values that it is made of; functions must have a name in a module."
)
_NOT_LOADED = (
    "rank {rank} cannot make the object of its pickle: {error}. Send the values that it is made "
    "of; its class must be in a module that every rank imports alike."
)


@collective_call("allgather_object")
def allgather_object(value: Any) -> list[Any]:
    """Return the objects of all ranks, in rank order. Collective.

    Args:
        value: Any object that can be pickled, of any size; None is one, too.

    Raises:
        TypeError: On all ranks, if that of some rank cannot be pickled, or some rank cannot make it
            of the pickle; names the rank.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if get_size() == 1:
        return [value]
    return _loaded(gather("object", lambda: pickle.dumps(value), _NOT_SENT, kind=TypeError))


@collective_call("broadcast_object")
def broadcast_object(value: Any = None, root: int = MASTER_RANK) -> Any:
    """Return the object of one rank on all ranks. Collective.

        settings = tnt.broadcast_object(read_settings() if tnt.is_master_rank() else None)

    Args:
        value: Any object that can be pickled; what other ranks than the root give has no effect.
        root: The rank whose object it is, the same on all ranks.

    Raises:
        ValueError: If there is no such rank.
        TypeError: On all ranks, if the object cannot be pickled, or some rank cannot make it of the
            pickle; names the rank.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if not 0 <= root < get_size():
        raise ValueError(f"`root` must be a rank from 0 to {get_size() - 1}. Received: {root}.")
    if get_size() == 1:
        return value
    is_root = get_rank() == root
    label = f"object of rank {root}"
    of_ranks = gather(
        label, lambda: pickle.dumps(value) if is_root else b"", _NOT_SENT, kind=TypeError
    )
    loaded = _loaded([] if is_root else [of_ranks[root]])
    return value if is_root else loaded[0]


def _loaded(pickles: list[bytes]) -> list[Any]:
    objects: list[Any] = []

    def load() -> bytes:
        objects.extend(map(pickle.loads, pickles))
        return b""

    gather("object, loaded", load, _NOT_LOADED, kind=TypeError)
    return objects


@contextlib.contextmanager
def master_first(timeout_s: float = 3600.0) -> Iterator[None]:
    """Let the master rank run a with-block before the others do. Collective.

    For example::

        with tnt.master_first():
            path = keras.utils.get_file(...)   # the others find it in the cache

    Args:
        timeout_s: How long the others wait for the master rank, in seconds.

    Raises:
        RuntimeError: On the other ranks, if the block failed on the master rank; says why.
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    if get_size() == 1:
        yield
        return
    caller = user_line()
    if not is_master_rank():
        failure = _failure_of_master("", timeout_s, caller)
        if failure:
            raise of_other_rank(
                RuntimeError,
                MASTER_RANK,
                f"{caller}: Rank {get_rank()}: rank {MASTER_RANK} failed in "
                f"`tnt.master_first()`: {failure}",
            )
        yield
        return
    failure = ""
    try:
        yield
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
        raise
    finally:
        _failure_of_master(failure, timeout_s, caller)


def _failure_of_master(failure: str, timeout_s: float, caller: str) -> str:
    own = np.frombuffer(failure.encode(), np.uint8)
    of_ranks = tnt_comm.allgather(own, timeout_s=timeout_s, label="master_first", caller=caller)
    return of_ranks[MASTER_RANK].tobytes().decode()
