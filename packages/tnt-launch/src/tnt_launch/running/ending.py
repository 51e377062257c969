"""When the ranks of a job of which one has failed are ended: rules without clocks and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tnt_launch.output.failure import Failure
from tnt_launch.output.report import RankEnd, first_failure

# Time that the others have to tell errors of their own after the end of the rank to blame. That
# rank is lost whatever they do; all that a longer wait could show are consequences.
GRACE_S = 0.2

# Time that a rank has to end by itself if it is to blame, by its own error or by what others tell
# of it: Python with TensorFlow takes seconds on a busy host. The job has the exit code of this
# rank.
LEAVING_S = 10.0


def time_of_end(ends: Sequence[RankEnd], survivors: Mapping[int, Failure | None]) -> float:
    """Return when to end the ranks that run, by what they have told so far. Pure."""
    cause = first_failure(ends)
    assert cause is not None
    own = [one.time_s for one in survivors.values() if one is not None and one.cause_rank is None]
    if cause.is_own_error:
        earlier = [time_s + LEAVING_S for time_s in own if time_s < cause.failed_s]
        return max([cause.time_s + GRACE_S, *earlier])
    began = min(end.time_s for end in ends if end.has_failed)
    told = [end.failure for end in ends] + list(survivors.values())
    blamed = {one.cause_rank for one in told if one is not None}
    is_awaited = own or any(rank in blamed for rank, one in survivors.items() if one is None)
    return began + (LEAVING_S if is_awaited else GRACE_S)
