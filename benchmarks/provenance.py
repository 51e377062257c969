"""Write into pages where their figures come from: command, date, machine and commit.

    python -m benchmarks.provenance PAGE.md ...

A page names the stored results of a section by a comment, `<!-- results: overlap.jsonl -->`. The
list below the comment is written from the headers of that file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.records import Row, Section, read_sections

RESULTS = Path(__file__).parent / "results"
MARK = re.compile(r"^<!-- results: (\S+) -->\n((?:- Made by .*\n)*)", re.MULTILINE)


def line_of(header: Row) -> str:
    """One line of Markdown for the rows below a header. Pure."""
    words = [f"- Made by `{header['command']}`", header["date"][:10], header["processor"]]
    words += [f"{header['cores']} cores"] if header["cores"] else []
    words += [f"commit {header['commit']}"]
    return ", ".join(words) + ("; transcribed" if header.get("transcribed") else "")


def lines_of(sections: list[Section]) -> Iterator[str]:
    """The list below a comment. Pure."""
    yield from dict.fromkeys(line_of(section.header) for section in sections)


def with_provenance(text: str, folder: Path = RESULTS) -> str:
    """The page with the list below each of its comments."""

    def renew(mark: re.Match[str]) -> str:
        lines = [f"<!-- results: {mark[1]} -->", *lines_of(read_sections(folder / mark[1]))]
        return "".join(f"{line}\n" for line in lines)

    return MARK.sub(renew, text)


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        page.write_text(with_provenance(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
