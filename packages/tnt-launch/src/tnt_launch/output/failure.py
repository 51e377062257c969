"""How a rank has failed, as it has told itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """The error that has ended the program of a rank; without `kind` one that it has caught."""

    kind: str = ""  # class of the error, as tracebacks name it
    text: str = ""  # its message, the first line of it
    file: str = ""  # with `line`: the innermost place of the user's own code
    line: int = 0
    # Whose end, error or other call this is a consequence of; `None`: it is the rank's own.
    cause_rank: int | None = None
    time_s: float = 0.0  # when, on the clock of `time.monotonic`

    @property
    def exception(self) -> str:
        """Class and message, as a traceback ends."""
        return ": ".join(filter(None, [self.kind, self.text]))
