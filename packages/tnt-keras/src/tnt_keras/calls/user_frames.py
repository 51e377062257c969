"""Find the frames of a stack that belong to the user, not to Keras, TensorFlow or Tarantella."""

from __future__ import annotations

import os
import sys
import types

_NOT_THE_USER = {
    *("tarantella", "tnt_comm", "tnt_data", "tnt_keras"),
    *("keras", "tensorflow"),
    *("contextlib", "functools"),
}
"""Top-level packages whose frames may lie between the user's line and us."""


def user_line() -> str:
    """Return the user's nearest line, such as "train.py:31"; "" in a thread of others. Local."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _package(frame) not in _NOT_THE_USER:
            file = os.path.basename(frame.f_code.co_filename)
            # Other ranks are told this line, and bytes of a file's name may be no text.
            return f"{file.encode(errors='backslashreplace').decode()}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def user_frames_of(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames of Keras, TensorFlow and ours. Local."""
    kept = None
    for entry in reversed(_entries(traceback)):
        if _package(entry.tb_frame) not in _NOT_THE_USER:
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _entries(traceback: types.TracebackType | None) -> list[types.TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
