"""The folder for temporary files, or one sentence about why there is none."""

from __future__ import annotations

import tempfile

from tnt_launch.errors import LaunchError


def find_temporary_folder() -> str:
    """Return the absolute path of a folder that can be written into. Local."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise LaunchError(
            f"there is no folder for temporary files ({error.strerror}): set TMPDIR to one that "
            "exists, can be written into and is not full."
        ) from error
