"""Findings as a table that grows: sections are shown one after the other, whichever ends first."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "note", "problem"]

_STATUS_WIDTH = len("problem")
_CHECK_WIDTH = len("shared memory")
_INDENT = " " * (2 + _STATUS_WIDTH + 2 + _CHECK_WIDTH + 2)
_LEAST_WIDTH = len(_INDENT) + 30
_COLOURS: dict[Status, str] = {"ok": "32", "note": "33", "problem": "1;31"}
_ERASE = "\r\x1b[K"


@dataclass(frozen=True)
class Finding:
    """What was found out about something."""

    status: Status  # `"problem"` if jobs fail because of it
    check: str  # what was looked at, in a word or two
    text: str
    remedy: str = ""  # in a sentence; empty if nothing need be done

    def __post_init__(self) -> None:
        assert self.remedy or self.status != "problem", self.text


def render(finding: Finding, width: int | None, has_colours: bool) -> str:
    """Return a finding as one or more lines, with the remedy below it. Pure."""
    status = finding.status.ljust(_STATUS_WIDTH)
    if has_colours:
        status = f"\x1b[{_COLOURS[finding.status]}m{status}\x1b[0m"
    # Where a message has several lines, so has the table.
    text = _folded(finding.text, width)
    lines = [f"  {status}  {finding.check.ljust(_CHECK_WIDTH)}  {text[0]}"]
    lines += [_INDENT + line for line in text[1:]]
    if finding.remedy:
        lines += [_INDENT + line for line in _folded(f"-> {finding.remedy}", width)]
    return "".join(f"{line}\n" for line in lines)


def summary(num_problems: int, num_notes: int) -> str:
    """Return the last line. Pure."""
    counts = {"problem": num_problems, "note": num_notes}
    words = [f"{count} {noun}{'s' * (count > 1)}" for noun, count in counts.items() if count]
    return f"{', '.join(words) or 'no problem'} found\n"


def _folded(text: str, width: int | None) -> list[str]:
    lines = text.split("\n")
    if width is not None:
        size = max(width, _LEAST_WIDTH) - len(_INDENT)
        # Paths and commands are to be copied: only blanks end a line.
        wrap = textwrap.TextWrapper(size, break_long_words=False, break_on_hyphens=False).wrap
        lines = [part for line in lines for part in wrap(line) or [""]]
    return lines


class Screen:
    """The standard output of this process; its width is `None` for a pipe or a file."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self.width = shutil.get_terminal_size().columns if self._is_terminal else None
        self.has_colours = (
            self._is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") != "dumb"
        )
        self._progress = ""

    def show(self, text: str) -> None:
        """Show whole lines."""
        progress = self._progress
        self.clear()
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
        self.progress(progress)

    def progress(self, text: str) -> None:
        """Replace the line that says what goes on; it is shown on a terminal alone."""
        if not self._is_terminal or text == self._progress:
            return
        self._progress = text
        sys.stdout.write(_ERASE + text[: (self.width or 80) - 1])
        sys.stdout.flush()

    def clear(self) -> None:
        """Remove the line that says what goes on."""
        if self._progress:
            self.progress("")


@dataclass
class _Section:
    title: str
    findings: list[Finding] = field(default_factory=list)
    num_shown: int = 0
    is_finished: bool = False


class Report:
    """Shows findings as soon as the sections before theirs are finished. Not thread-safe."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._sections: list[_Section] = []
        self._current = -1

    @property
    def num_problems(self) -> int:
        """How many problems were found."""
        return self._count("problem")

    def begin(self, title: str) -> int:
        """Add a section and return its number."""
        self._sections.append(_Section(title))
        self._show()
        return len(self._sections) - 1

    def add(self, section: int, findings: Iterable[Finding]) -> None:
        """Add lines to a section."""
        self._sections[section].findings += findings
        self._show()

    def finish(self, section: int) -> None:
        """Say that nothing more comes in a section."""
        self._sections[section].is_finished = True
        self._show()

    def progress(self, section: int, text: str) -> None:
        """Say what goes on in a section, if it is the one that is shown."""
        if section == self._current:
            self._screen.progress(f"  ...      {text}")

    def clear(self) -> None:
        """Remove what says what goes on."""
        self._screen.clear()

    def end(self) -> None:
        """Show the last line."""
        self._screen.clear()
        self._screen.show(summary(self.num_problems, self._count("note")))

    def _show(self) -> None:
        while True:
            if self._current >= 0:
                section = self._sections[self._current]
                for finding in section.findings[section.num_shown :]:
                    self._screen.show(render(finding, self._screen.width, self._screen.has_colours))
                section.num_shown = len(section.findings)
                if not section.is_finished:
                    return
            if self._current + 1 == len(self._sections):
                return
            self._current += 1
            self._screen.clear()
            self._screen.show(f"{self._sections[self._current].title}\n")

    def _count(self, status: str) -> int:
        return sum(
            finding.status == status for section in self._sections for finding in section.findings
        )
