"""Numbers of a page that look measured: those with a unit, and the cells of tables of results.

A comment `<!-- results: overlap.jsonl -->` names the file of the figures from there to the next
heading.
"""

import re
from typing import NamedTuple

# Settings and goals have these units, too; `exempt_figures.py` lists them.
MEASURED_UNITS = (
    "%", "percent", "GB/s", "MB/s", "samples/s", "ns", "us", "µs", "ms", "s", "times", "x",
    "seconds", "milliseconds", "microseconds", "nanoseconds",
)  # fmt: skip
# Outside of results these say how large something is, not how it performs.
SIZES = ("bytes", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "Mbit/s", "Gbit/s")

NUMBER = r"(?<![\w.^-])[-+]?\d+(?:\.\d+)?"
SERIES = rf"{NUMBER}(?:\s(?:to|of)\s{NUMBER})*"
ALL_UNITS = sorted((*MEASURED_UNITS, *SIZES), key=len, reverse=True)
UNIT = "|".join(r"(?<=\d)x" if unit == "x" else unit for unit in ALL_UNITS)  # not that of 2 x 4
WITH_UNIT = re.compile(rf"({SERIES})[\s-]?({UNIT})(?![\w/])")
CELL = re.compile(rf"({SERIES})(?:\s?({UNIT}))?(?![\w/])")
UNIT_OF_COLUMN = re.compile(rf"(?:^|[\s,(])(?<!\d )({'|'.join(ALL_UNITS)})(?=$|[\s,)])")

# What is not text: its place is kept by blanks, so that lines keep their numbers.
CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
NOT_TEXT = re.compile(
    r"<!--.*?-->|^- Made by .*?$|\$\$.*?\$\$|\$[^$\n]+\$|`[^`]*`|\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)
MARK = re.compile(r"^<!-- results: (\S+) -->$|^(#+ .*)$", re.MULTILINE)
ROW_OF_TABLE = re.compile(r"^ *\|.*\|$", re.MULTILINE)


class Figure(NamedTuple):
    """One number of a page."""

    line: int
    text: str  # as the page has it
    units: tuple[str, ...]  # those that it may have; an empty one is none
    labels: tuple[str, ...] = ()  # what else is in its row of a table, separated at commas
    file: str | None = None  # the results that must hold it

    @property
    def number(self):
        """With its sign."""
        return float(self.text)

    @property
    def half_digit(self):
        """How far a rounded number can be from the value."""
        return 0.5 / 10 ** len(self.text.partition(".")[2])


class Span(NamedTuple):
    """Part of a page, up to the next heading or comment."""

    line: int  # the first, from 1
    heading: str
    file: str | None


def blank(match):
    """As many blanks and line breaks."""
    return re.sub(r"[^\n]", " ", match[0])


def spans_of(page):
    """Parts of a page in their order."""
    heading = ""
    spans = [Span(1, "", None)]
    for match in MARK.finditer(CODE.sub(blank, page)):
        heading = match[2] or heading
        spans.append(Span(page.count("\n", 0, match.start()) + 1, heading, match[1]))
    return spans


def figures_of(page, exempt=()):
    """All figures of a page but those in the quotes that are exempt, and those of goals."""
    text = NOT_TEXT.sub(blank, CODE.sub(blank, page))
    for quote in exempt:
        text = re.sub(quote_pattern(quote), blank, text)
    text = text.replace("*", " ")
    spans = spans_of(page)
    found = []
    for figure in (*prose(text), *cells(text)):
        span = [span for span in spans if span.line <= figure.line][-1]
        is_measured = figure.units[0] in MEASURED_UNITS and "Goal" not in span.heading
        if span.file or is_measured:
            found.append(figure._replace(file=span.file))
    return sorted(found)


def quote_pattern(quote):
    """A quote may be broken into lines anywhere."""
    return r"\s+".join(map(re.escape, quote.split()))


def prose(text):
    """Numbers with a unit outside of tables."""
    for match in WITH_UNIT.finditer(ROW_OF_TABLE.sub(blank, text)):
        line = text.count("\n", 0, match.start()) + 1
        for number in numbers_of(match[1]):
            yield Figure(line, number, (match[2],))


def cells(text):
    """Numbers of tables, with their own unit or those of their column."""
    units = []
    for line, row in enumerate(text.splitlines(), 1):
        if not ROW_OF_TABLE.fullmatch(row):
            units = []
            continue
        columns = row.strip().strip("|").split("|")
        units = units or units_of_columns(columns)  # the first row has the titles
        labels = tuple(filter(None, (word.strip() for cell in columns for word in cell.split(","))))
        for cell, of_column in zip(columns, units, strict=False):
            for match in CELL.finditer(re.sub(r"(?<=\d)-(?=\d)", " ", cell)):
                for number in numbers_of(match[1]):
                    yield Figure(line, number, (match[2],) if match[2] else of_column, labels)


def numbers_of(series):
    """Each number of a series such as `3 to 5`."""
    return re.findall(r"[-+]?[\d.]+", series)


def units_of_columns(titles):
    """For each column the units of its numbers: its own, or either none or that to its left."""
    units = []
    to_the_left = ""
    for title in titles:
        own = UNIT_OF_COLUMN.search(title)
        to_the_left = own[1] if own else to_the_left
        units.append((own[1],) if own else ("", to_the_left))
    return units
