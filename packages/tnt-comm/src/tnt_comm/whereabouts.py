"""Where this rank is until it has joined the others: they say so if they wait for it for long."""

import os
import sys
import threading
import time
import types
from collections.abc import Callable

from tnt_comm import _core, board
from tnt_comm.failure import is_of_users
from tnt_comm.start import join

INTERVAL_S = 5.0


def tell_until_joined() -> None:
    """Let others know where this rank is, by the launcher's memory or the rendezvous. Local."""
    if not board.has_launcher():
        join.call_when_met(lambda: _tell_by(join.note_place))
    elif _core.get_size() > 1:
        _core.set_watched(board.place_of)
        _tell_by(board.note_place)


def _tell_by(note: Callable[[str], None]) -> None:
    threading.Thread(target=_tell, args=[note], name="tnt-comm-whereabouts", daemon=True).start()


def _tell(note: Callable[[str], None]) -> None:
    main = threading.main_thread().ident
    while True:
        time.sleep(INTERVAL_S)
        if _core.is_initialized():
            return
        frame = sys._current_frames().get(main or 0)
        note(_place_in_script(frame))


def _place_in_script(frame: types.FrameType | None) -> str:
    """Return the innermost line of the user's own code, as `train.py:12, in load`."""
    while frame is not None:
        code = frame.f_code
        if is_of_users(code.co_filename):
            where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
            return where if code.co_name == "<module>" else f"{where}, in {code.co_name}"
        frame = frame.f_back
    return ""
