"""The job this process belongs to: start, end, and who is who."""

import contextlib

from tnt_comm import _core
from tnt_comm.start import join
from tnt_comm.timeline import keeper


def init(timeout_s: float | None = None) -> None:
    """Join the job described by the `TNT_*` environment variables.

    The launcher sets them. Processes that `srun`, an MPI or torchrun has started agree on them
    first, as in `get_rank`. Any other process is a world of one rank. The first collective and the
    first object that needs the other ranks call it; calling it again does nothing. Importing
    tnt_comm does not join, nor do `get_rank` and `get_size`.

    Collective: returns when every rank of the job has called it. It waits without a limit for a
    rank that lives, since all end when a rank has ended; after 30 s a warning says who is missing,
    and where in the script. Ranks that have all called it have `TNT_TIMEOUT_S` to meet. For ranks
    whose variables were set by hand, the whole limit is `TNT_TIMEOUT_S`.

    Args:
        timeout_s: Longest wait for the others, in seconds; by default as described above.

    Raises:
        ValueError: If `timeout_s` is not positive, or a variable is malformed or contradicts
            another one or those of other ranks, after `finalize`, or in a forked child.
        CommTimeoutError: If not all ranks join in time.
        PeerLostError: If a rank has ended before it joined.
        CommError: If shared memory cannot be created, two jobs on the host
            have the same `TNT_JOB_ID`, or the job needs GPI-2 and no supported version is found.
    """
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"`timeout_s` must be greater than 0. Received: {timeout_s!r}.")
    with contextlib.nullcontext() if _core.is_initialized() else join.joining():
        _core.init(timeout_s)


def finalize() -> None:
    """End this rank's part in the job; also runs when the interpreter exits.

    Other ranks that wait for this one raise `PeerLostError`. Nothing can be
    started afterwards. Calling it again does nothing.

    Local: does not wait for other ranks.
    """
    keeper.end()


def is_initialized() -> bool:
    """Return whether this process has joined a job and not left it. Local."""
    return _core.is_initialized()


def get_rank() -> int:
    """Return the rank of this process in the job, in `[0, get_size())`.

    Read from the environment, as are the other three below. Does not join the
    job, so it also answers before `init` and after `finalize`. Local.

    Without the launcher, ranks that `srun`, an MPI or torchrun has started meet in the first call
    of these or of `init`, which is then collective.

    Raises:
        ValueError: If a variable is malformed, or variables contradict each other.
        CommError: If the ranks cannot meet, or one of them has ended or failed.
    """
    join.meet()
    return _core.get_rank()


def get_size() -> int:
    """Return the number of ranks in the job. As `get_rank`. Local."""
    join.meet()
    return _core.get_size()


def get_local_rank() -> int:
    """Return the rank of this process among those of its host. As `get_rank`. Local."""
    join.meet()
    return _core.get_local_rank()


def get_local_size() -> int:
    """Return the number of ranks on this host. As `get_rank`. Local."""
    join.meet()
    return _core.get_local_size()
