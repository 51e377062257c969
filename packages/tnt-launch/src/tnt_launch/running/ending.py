"""When the ranks of a job of which one has failed are ended: rules without clocks and processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tnt_launch.output.report import RankEnd, first_failure, tells_of_another_rank
from tnt_launch.output.traceback_text import last_traceback

# Time that the others have to tell errors of their own after the end of a rank that had one. That
# rank is lost whatever they do; all that a longer wait could show are consequences.
GRACE_S = 0.2

# The same time if the rank that ended only tells of another one, which may be the cause.
TOLD_GRACE_S = 1.5

# Time after such an end that a rank has to end by itself after its own error: Python with
# TensorFlow takes seconds on a busy host. Ranks that were told of the error may end sooner, but the
# exit code of the job is that of the rank that raised it.
LEAVING_S = 10.0

# Time to end by itself after an error that came before that of the rank that has ended.
EARLIER_S = 3.0

SETTLE_S = 0.05  # silence after which a traceback counts as complete: Python writes it line by line


@dataclass(frozen=True)
class Survivor:
    """A rank that runs while another one has failed."""

    stderr: str = ""  # its last lines
    # when the traceback began that it has written last, unless long ago
    told_s: float | None = None
    heard_s: float = 0.0  # when it wrote to stderr last


def time_of_end(ends: Sequence[RankEnd], survivors: Collection[Survivor], now: float) -> float:
    """Return when to end the survivors; ask again, since it depends on what they write. Pure."""
    cause = first_failure(ends)
    assert cause is not None
    if cause.has_own_error:
        return _after_own_error(cause, survivors)
    began = next(end.time_s for end in ends if end.has_failed)
    if any(end.was_told_of_a_failure for end in ends):
        is_leaving = bool(survivors)  # it may print nothing: `sys.exit(4)`
    else:
        is_leaving = any(last_traceback(one.stderr) for one in survivors)
    if is_leaving and now >= began + TOLD_GRACE_S:
        return began + LEAVING_S
    return began + TOLD_GRACE_S


def _after_own_error(cause: RankEnd, survivors: Collection[Survivor]) -> float:
    times = [cause.time_s]
    for one in survivors:
        if one.told_s is None:
            times.append(cause.time_s + GRACE_S)
        elif one.told_s < cause.failed_s and not tells_of_another_rank(one.stderr):
            times.append(one.told_s + EARLIER_S)  # the cause may be here
        else:
            times.append(min(one.heard_s + SETTLE_S, cause.time_s + GRACE_S))
    return max(times)
