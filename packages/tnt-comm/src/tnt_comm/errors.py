"""Errors of tnt_comm that concern other ranks."""

from typing import ClassVar

# Wrong arguments and a wrong order of calls are `ValueError` or `TypeError`, raised before anything
# is sent. The errors here, of a collective, break its group: its data may be half exchanged, so
# every later call on it raises again, quoting the first error. A creation that failed because a
# rank could not make its part breaks nothing.


class CommError(RuntimeError):
    """Communication, or a creation by several ranks, failed.

    Attributes:
        cause_rank: The rank whose end, error or different call caused this error, if it is known.
    """

    _symbol: ClassVar[str] = "comm-failed"
    cause_rank: int | None = None

    def __str__(self) -> str:
        """Return the message, with the symbol once, at its end, even if it quotes an error."""
        mark = f" [{self._symbol}]"
        return super().__str__().replace(mark, "") + mark


class CommTimeoutError(CommError, TimeoutError):
    """A deadline (`timeout_s`, or `TNT_TIMEOUT_S`) passed while waiting for other ranks."""

    _symbol = "comm-timeout"


class PeerLostError(CommError):
    """A rank that is needed is dead, has finished, or has given up."""

    _symbol = "peer-lost"


class MismatchError(CommError):
    """The ranks disagree about what they do together: size, dtype, operation, label or order."""

    _symbol = "calls-differ"
