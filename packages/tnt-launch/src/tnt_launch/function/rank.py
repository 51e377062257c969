"""What a rank does on which a function is launched: call it, store the result or the exception."""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
import traceback
from types import TracebackType

from tnt_launch.function.call_folder import CallFolder, RaisedError


def main(path: str) -> None:
    """Do what the folder says, as the rank that the environment says. Exit code 1 if it raises."""
    folder, rank = CallFolder(path), int(os.environ["TNT_RANK"])
    # What the function imports may put another one before this, which tells the launcher, too.
    sys.excepthook = functools.partial(_take_error, folder, rank)
    try:
        call = folder.read_call()
        folder.write_result(rank, call.function(*call.args, **call.kwargs))
    except SystemExit as end:
        if not end.code:  # the function has done what it was to do
            folder.write_result(rank, None)
        raise


def _take_error(
    folder: CallFolder,
    rank: int,
    kind: type[BaseException],
    error: BaseException,
    frames: TracebackType | None,
) -> None:
    now = time.monotonic()
    while frames is not None and frames.tb_frame.f_code is not main.__code__:
        frames = frames.tb_next
    # From the function on; one written in C has no frame, and ours keeps this text a traceback.
    own = (frames.tb_next or frames) if frames is not None else None
    text = "".join(traceback.format_exception(kind, error, own))
    folder.write_error(rank, RaisedError(now, text, _pickled(error)))
    sys.stderr.write(text)


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception, unless what comes back would not be one of the same type."""
    from tnt_launch.function import pickles

    try:
        data = pickles.dumps(error)
        return data if type(pickle.loads(data)) is type(error) else None
    except Exception:  # whatever its own methods raise; its text is there in any case
        return None
