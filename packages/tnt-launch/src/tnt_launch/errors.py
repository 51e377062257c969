"""The errors of jobs: one that cannot be started, and one of which a rank has ended by itself."""

from typing import ClassVar


class LaunchError(Exception):
    """The job cannot be started as asked; the text says what to do. Exit code 2."""

    _symbol: ClassVar[str] = "cannot-launch"

    def __str__(self) -> str:
        """Return the message, with the symbol once, at its end, even if it quotes an error."""
        mark = f" [{self._symbol}]"
        return super().__str__().replace(mark, "") + mark


class RankFailedError(RuntimeError):
    """A rank on which a function was launched has failed; the text is the launcher's report."""

    _symbol: ClassVar[str] = "rank-failed"

    def __str__(self) -> str:
        """Return the report, with the symbol once, at the end of its first line."""
        mark = f" [{self._symbol}]"
        headline, end_of_line, details = super().__str__().replace(mark, "").partition("\n")
        return headline + mark + end_of_line + details
