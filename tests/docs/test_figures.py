"""Every measured figure of a page is in stored results, and the page says where they come from."""

import json
import re

import pytest
from exempt_figures import EXEMPT
from page_figures import figures_of, quote_pattern
from run_command import ROOT
from stored_figures import stored

from benchmarks.provenance import MARK, RESULTS, with_provenance
from benchmarks.records import read_sections

PATTERNS = ("README.md", "docs/explanation/*.md", "docs/howto/*.md", "benchmarks/**/README.md")
PAGES = sorted(str(path.relative_to(ROOT)) for each in PATTERNS for path in ROOT.glob(each))
FILES = sorted(RESULTS.glob("*.jsonl"))
UNNAMED = "stands under no `results` comment"


def complaints(page, name, folder=RESULTS, exempt=()):
    """Say which figures of a page nobody has measured."""
    found = []
    for figure in figures_of(page, exempt):
        where = f"{name}:{figure.line}: {figure.text} {figure.units[0]}".rstrip()
        if figure.file is None:
            found.append(f"{where}: {UNNAMED}")
        elif not stored(folder / figure.file).holds(figure):
            found.append(f"{where}: not in {figure.file}")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_stored(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    quotes = [quote for pages in EXEMPT.values() for quote in pages.get(name, ())]
    found = complaints(page, name, exempt=quotes)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_where_its_figures_come_from(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == with_provenance(page), f"run: python -m benchmarks.provenance {name}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_stored_results_say_how_when_where_and_from_what_they_were_made(file):
    assert (ROOT / "benchmarks" / file.stem / "__main__.py").exists()
    for header, rows in read_sections(file):
        assert header["command"].startswith(f"python -m benchmarks.{file.stem}")
        assert {"date", "processor", "cores", "commit", "versions", "options"} <= header.keys()
        assert not header["commit"].endswith("-dirty")
        assert rows


def test_results_are_stored_because_a_page_quotes_them():
    quoted = {mark[1] for name in PAGES for mark in MARK.finditer((ROOT / name).read_text("utf-8"))}
    assert quoted == {file.name for file in FILES}


def test_an_exemption_quotes_its_page():
    for pages in EXEMPT.values():
        for name, quotes in pages.items():
            page = (ROOT / name).read_text(encoding="utf-8")
            assert [quote for quote in quotes if not re.search(quote_pattern(quote), page)] == []


HEADER = {"benchmark": "b", "command": "python -m benchmarks.b", "date": "2026-01-02T03:04:05Z",
          "processor": "P", "cores": 2, "commit": "abc", "options": {"rate": "1gbit"}}  # fmt: skip
ROWS = [
    {"workload": "4MiB", "bytes": 4 * 2**20, "call_us": [270.0, 274.4, 280.0], "error": -0.026},
    {"workload": "net", "wall_s": 0.3, "hidden": [0.64, 0.755, 0.84]},
    {"figure": "with 99 of something", "memory_mib": 123},
]


@pytest.fixture
def folder(tmp_path):
    """Stored results of a benchmark that does not exist."""
    lines = "".join(json.dumps(row) + "\n" for row in (HEADER, *ROWS))
    (tmp_path / "b.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


SECTION = "# Title\n\n<!-- results: b.jsonl -->\n\n"


@pytest.mark.parametrize(
    "text",
    [
        "It takes 274 us, or 0.274 ms.",
        "Between 64 and 84 % are hidden, and 76 %\nin the middle.",
        "The error is -2.6 %, that is 2.6 %.",
        "On a link of 1 Gbit/s 4 MiB need 123 MiB.",
        "| what | time, us |\n| --- | --- |\n| 4MiB | 274 |\n| net | 300000 |",
        "| what | time, ms | hidden |\n| --- | --- | --- |\n| net | 300 | 0.64-0.84 |",
        "```text\n12 %\n```\n\nand `13 %`, $14 s$ of 15 samples",
        "## Another\n\n| a |\n| --- |\n| 17 |\n\nOf 16 MiB.",
        "## Goals\n\nAt least 17 %.",
    ],
)
def test_what_is_stored_or_not_measured_may_stand_on_a_page(text, folder):
    assert complaints(SECTION + text, "page.md", folder) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("It takes 275 us.", "page.md:5: 275 us: not in b.jsonl"),
        ("It takes 274.5 us.", "page.md:5: 274.5 us: not in b.jsonl"),
        ("It takes 274 ms.", "page.md:5: 274 ms: not in b.jsonl"),
        ("Of these, 64 to\n85 % are hidden.", "page.md:5: 85 %: not in b.jsonl"),
        ("The error is +2.6 %.", "page.md:5: +2.6 %: not in b.jsonl"),
        ("It takes 99 us.", "page.md:5: 99 us: not in b.jsonl"),
        ("It is 3 times as fast.", "page.md:5: 3 times: not in b.jsonl"),
        ("It is 3x as fast.", "page.md:5: 3 x: not in b.jsonl"),
        ("| time, us |\n| --- |\n| 276 |", "page.md:7: 276 us: not in b.jsonl"),
        ("| hidden |\n| --- |\n| 0.65-0.84 |", "page.md:7: 0.65: not in b.jsonl"),
        ("| workload | us |\n| --- | --- |\n| net | 274 |", "page.md:7: 274 us: not in b.jsonl"),
        ("## Another\n\nIt takes 274 us.", f"page.md:7: 274 us: {UNNAMED}"),
        ("## Another\n\n| a |\n| --- |\n| 3 ms |", f"page.md:9: 3 ms: {UNNAMED}"),
    ],
)  # fmt: skip
def test_a_figure_that_nobody_has_measured_is_named(text, complaint, folder):
    assert complaints(SECTION + text, "page.md", folder) == [complaint]


def test_an_exempt_quote_may_be_broken_into_lines(folder):
    assert complaints("Ranks wait\n30 s.", "page.md", folder, exempt=["wait 30 s"]) == []


def test_the_line_below_a_comment_is_that_of_the_stored_results(folder):
    page = "# Title\n\n<!-- results: b.jsonl -->\n- Made by hand\n\nText.\n"
    line = "- Made by `python -m benchmarks.b`, 2026-01-02, P, 2 cores, commit abc\n"
    renewed = with_provenance(page, folder)
    assert renewed == page.replace("- Made by hand\n", line)
    assert with_provenance(renewed, folder) == renewed
