"""What to do when the operating system refuses something because of a limit."""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator

from tnt_launch.errors import LaunchError

_LIMITS = {
    errno.EMFILE: (resource.RLIMIT_NOFILE, "open files (ulimit -n)"),
    errno.EAGAIN: (resource.RLIMIT_NPROC, "processes and threads (ulimit -u)"),
}


def advice_for(error: BaseException) -> str | None:
    """Return a sentence about the limit that an error comes from, `None` if it comes from none."""
    if not isinstance(error, OSError) or error.errno not in _LIMITS:
        return None
    number, what = _LIMITS[error.errno]
    limit = resource.getrlimit(number)[0]
    if limit == resource.RLIM_INFINITY:
        return f"There is no limit of {what} here: that of the host or container is met."
    return f"The limit of {what} is {limit}: raise it."


@contextlib.contextmanager
def limits_told() -> Iterator[None]:
    """Make an error that comes from a limit in the block a LaunchError of one sentence."""
    try:
        yield
    except OSError as error:
        advice = advice_for(error)
        if advice is None:
            raise
        raise LaunchError(f"the job cannot be started: {error}. {advice}") from error
