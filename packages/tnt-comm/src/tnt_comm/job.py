"""The job this process belongs to: start, end, and who is who."""

from tnt_comm import _core


def init() -> None:
    """Joins the job described by the `TNT_*` environment variables.

    Without them the process is a world of one rank. Called by everything else
    when needed; calling it again does nothing.

    Collective: returns when every rank of the job has called it.

    Raises:
        ValueError: If a variable is malformed or contradicts another one or
            those of other ranks, after `finalize`, or in a forked child.
        CommTimeoutError: If not all ranks join within `TNT_TIMEOUT_S`.
        CommError: If shared memory cannot be created, two jobs on the host
            have the same `TNT_JOB_ID`, or the job needs a GPI-2 and there is
            none that is supported.
    """
    _core.init()


def finalize() -> None:
    """Ends this rank's part in the job; also runs when the interpreter exits.

    Other ranks that wait for this one raise `PeerLostError`. Nothing can be
    started afterwards. Calling it again does nothing.

    Local: does not wait for other ranks.
    """
    _core.finalize()


def is_initialized() -> bool:
    """Whether this process has joined a job and not left it. Local."""
    return _core.is_initialized()


def get_rank() -> int:
    """Rank of this process in the job, in `[0, get_size())`. Joins the job if needed."""
    return _core.get_rank()


def get_size() -> int:
    """Number of ranks in the job. Joins the job if needed."""
    return _core.get_size()


def get_local_rank() -> int:
    """Rank of this process among those of its host. Joins the job if needed."""
    return _core.get_local_rank()


def get_local_size() -> int:
    """Number of ranks on this host. Joins the job if needed."""
    return _core.get_local_size()
