"""Findings as lines of a table."""

from __future__ import annotations

import textwrap

from tnt_launch.doctor.finding import Finding, Status

_STATUS_WIDTH = len("problem")
_CHECK_WIDTH = len("shared memory")
_INDENT = " " * (2 + _STATUS_WIDTH + 2 + _CHECK_WIDTH + 2)
_LEAST_WIDTH = len(_INDENT) + 30
_COLOURS: dict[Status, str] = {"ok": "32", "note": "33", "problem": "1;31"}


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
