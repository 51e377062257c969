"""The table as it grows: sections are shown one after the other, whichever is finished first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tnt_launch.doctor.finding import Finding
from tnt_launch.doctor.screen import Screen
from tnt_launch.doctor.table import render, summary


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
