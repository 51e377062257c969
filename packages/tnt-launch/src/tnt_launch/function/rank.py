"""What a rank does on which a function is launched: call it, store the result or the exception."""

from __future__ import annotations

import os
import pickle
import sys
import time
import traceback

from tnt_launch.function.call_folder import CallFolder, RaisedError


def main(path: str) -> None:
    """Do what the folder says, as the rank that the environment says. Exit code 1 if it raises."""
    folder, rank = CallFolder(path), int(os.environ["TNT_RANK"])
    try:
        call = folder.read_call()
        folder.write_result(rank, call.function(*call.args, **call.kwargs))
    except SystemExit as end:
        if not end.code:  # the function has done what it was to do
            folder.write_result(rank, None)
        raise
    except BaseException as error:
        described = _describe(error)
        folder.write_error(rank, described)
        sys.stderr.write(described.traceback)  # by which the launcher knows what the end means
        sys.exit(1)


def _describe(error: BaseException) -> RaisedError:
    now = time.monotonic()
    own = error.__traceback__
    # From the function on; one written in C has no frame, and ours keeps this text a traceback.
    frames = (own.tb_next or own) if own is not None else None
    lines = traceback.format_exception(type(error), error, frames)
    return RaisedError(now, "".join(lines), _pickled(error))


def _pickled(error: BaseException) -> bytes | None:
    """Pickle an exception, unless what comes back would not be one of the same type."""
    from tnt_launch.function import pickles

    try:
        data = pickles.dumps(error)
        return data if type(pickle.loads(data)) is type(error) else None
    except Exception:  # whatever its own methods raise; its text is there in any case
        return None
