"""Write the timeline of this rank, and join those of all ranks."""

# Each rank writes a part: an empty one at start-up, so that a path that cannot be written is an
# error before work begins; a complete one at the end; and one as soon as it sees that another rank
# has ended, since it may then be ended from outside before it comes to its own end. Nobody waits
# for anybody: who sees no other rank run any more at his end joins the parts, and so does everybody
# who sees that a rank has failed. After the start, problems are warnings.

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable

from tnt_comm import _core
from tnt_comm.errors import CommError
from tnt_comm.timeline.files import merge_parts, require_place, trace_paths, write_atomically
from tnt_comm.timeline.render import render_part

_LOOK_INTERVAL_S = 0.25


class _Keeper:
    """Writes from a thread of its own while the rank computes."""

    def __init__(self) -> None:
        path, job, self._rank, self._size, self._offset_ns = _core.take_timeline()
        self._paths = trace_paths(path, job)
        require_place(self._paths, self._rank)
        # Else an old trace could be taken for that of a job that was killed. Its mode stays.
        if self._rank == 0 and self._paths.is_replaced and os.path.exists(self._paths.path):
            write_atomically(self._paths.path, "")
        self._write("started")
        self._process = os.getpid()
        self._has_seen = (False, False)  # an end, a failure
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tnt-timeline", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave the job; before it write all, and after it join the parts of all. Local."""
        if os.getpid() != self._process or self._is_over.is_set():
            return
        self._is_over.set()
        self._thread.join()
        self._warn_on_error(lambda: self._write("complete"))
        _core.finalize()
        is_one_running, _, has_one_failed = _core.look_at_others()
        if not is_one_running or has_one_failed:
            self._warn_on_error(lambda: self._merge(has_ended=not is_one_running))

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_INTERVAL_S):
            _, *seen = _core.look_at_others()
            has_ended, has_failed = seen
            if (has_ended, has_failed) != self._has_seen and has_ended:
                self._has_seen = (has_ended, has_failed)
                self._warn_on_error(lambda: self._write("partial"))
                if has_failed:
                    self._warn_on_error(lambda: self._merge(has_ended=False))

    def _write(self, state: str) -> None:
        part = render_part(_core.timeline_records(), state)
        write_atomically(self._paths.part_of(self._rank), part)

    def _merge(self, *, has_ended: bool) -> None:
        now_ns = time.monotonic_ns() + self._offset_ns
        merge_parts(self._paths, self._size, now_ns, has_ended=has_ended)

    def _warn_on_error(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            _core.warn_of_timeline(str(error))


_keepers: list[_Keeper] = []


def start() -> None:
    """Begin to write the timeline of the job that was just joined. Local.

    If the file cannot be written there, the job is left, and that is a `ValueError`.
    """
    try:
        _keepers.append(_Keeper())
    except (ValueError, OSError, CommError) as error:
        _core.finalize()
        raise ValueError(
            f"rank {_core.get_rank()}: the timeline cannot be written to "
            f"TNT_TIMELINE='{os.environ.get('TNT_TIMELINE', '')}': {_reason(error)} Name a file "
            "in a folder that exists and is writable on all hosts."
        ) from None
    atexit.register(end)


def _reason(error: Exception) -> object:
    """Return what a message that goes on quotes of an error: not the symbol at its end."""
    return error.args[0] if isinstance(error, CommError) else error


def end() -> None:
    """Leave the job, with a last look at the timeline if there is one. Local."""
    for keeper in _keepers:
        keeper.end()
    _core.finalize()
