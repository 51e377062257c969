"""A file of the user, the folder where a command was given, and that for temporary files."""

from __future__ import annotations

import os

from tnt_launch.errors import LaunchError


def read_user_file(path: str, what: str, newline: str | None = None) -> str:
    """Return the content of a file; it may be a pipe, as of `<(command)`. Local."""
    try:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            return file.read()
    except UnicodeDecodeError:
        raise LaunchError(f"{what} is no text in UTF-8.") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise LaunchError(f"{what} cannot be read: {reason}.") from None


def working_folder() -> str:
    """Return the absolute path of the folder of this process."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise LaunchError(
            "the folder in which this command was given has been deleted. Change to another one: "
            "cd FOLDER."
        ) from error


def find_temporary_folder() -> str:
    """Return the absolute path of a folder that can be written into. Local."""
    import tempfile  # not needed by `--help`

    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise LaunchError(
            f"there is no folder for temporary files ({error.strerror}): set TMPDIR to one that "
            "exists, can be written into and is not full."
        ) from error
