"""Read a text file that the user has named."""

from __future__ import annotations

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
