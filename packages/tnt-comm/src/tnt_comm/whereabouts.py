"""Where this rank is until it has joined the others: they say so if they wait for it for long."""

import os
import sys
import threading
import time
import types

from tnt_comm import _core, board
from tnt_comm.failure import is_of_users

INTERVAL_S = 5.0


def tell_until_joined() -> None:
    """Let others know where this rank is, if a launcher watches over both. Local."""
    if not board.has_launcher() or _core.get_size() == 1:
        return
    _core.set_watched_by_launcher(board.place_of)
    threading.Thread(target=_tell, name="tnt-comm-whereabouts", daemon=True).start()


def _tell() -> None:
    main = threading.main_thread().ident
    while True:
        time.sleep(INTERVAL_S)
        if _core.is_initialized():
            return
        frame = sys._current_frames().get(main or 0)
        board.note_place(_place_in_script(frame))


def _place_in_script(frame: types.FrameType | None) -> str:
    """Return the innermost line of the user's own code, as `train.py:12, in load`."""
    while frame is not None:
        code = frame.f_code
        if is_of_users(code.co_filename):
            where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
            return where if code.co_name == "<module>" else f"{where}, in {code.co_name}"
        frame = frame.f_back
    return ""
