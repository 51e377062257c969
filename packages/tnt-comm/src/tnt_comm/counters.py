"""What this rank's communication has cost so far."""

from dataclasses import astuple, dataclass

from tnt_comm import _core
from tnt_comm.job import init


@dataclass(frozen=True)
class Counters:
    """Totals of this rank since it joined the job; subtract two to get those in between.

    `communication_s` includes the time in which this rank had done its part and others had not:
    from when it handed over a bucket until the sum was there. What overlaps, in buckets or in
    threads, counts once.

    For any stretch of time in which steps were computed one after another,

        share of communication = communication_s / time
        hidden share           = 1 - exposed_s / communication_s

    Args:
        num_operations: Number of collectives, buckets of gradients and gathers that were started.
        num_bytes: Number of bytes that this rank contributed to them.
        num_waits: How often a thread had to wait for one.
        communication_s: Seconds in which at least one of them was under way.
        exposed_s: Seconds in which at least one thread waited for one.
    """

    num_operations: int = 0
    num_bytes: int = 0
    num_waits: int = 0
    communication_s: float = 0.0
    exposed_s: float = 0.0

    def __sub__(self, earlier: "Counters") -> "Counters":
        """Return what was added since `earlier`. Local."""
        pairs = zip(astuple(self), astuple(earlier), strict=True)
        return Counters(*(mine - theirs for mine, theirs in pairs))

    def __add__(self, other: "Counters") -> "Counters":
        """Return the totals of two stretches of time together. Local."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Counters(*(mine + theirs for mine, theirs in pairs))

    @property
    def hidden_share(self) -> float:
        """Part of the communication time in which no thread waited, from 0 to 1; 1 without any."""
        if self.communication_s <= 0:
            return 1.0
        return min(1.0, max(0.0, 1.0 - self.exposed_s / self.communication_s))


def counters() -> Counters:
    """Return the totals of this rank; cheap. Joins the job if needed. Local otherwise."""
    init()
    return Counters(*_core.counters())
