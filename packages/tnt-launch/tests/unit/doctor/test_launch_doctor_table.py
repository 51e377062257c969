"""Facts are read, findings become lines, and sections are shown in their order."""

import json

import pytest

from tnt_launch.doctor.facts import Fact, FactReader
from tnt_launch.doctor.report import Finding, Report, Screen, render, summary

PROBLEM = Finding("problem", "GPUs", "one two three", "Do this, then that.")


def test_a_finding_is_a_line_and_its_remedy_another_one():
    assert render(Finding("ok", "Python", "3.11.7"), None, False) == (
        "  ok       Python         3.11.7\n"
    )
    assert render(PROBLEM, None, False) == (
        "  problem  GPUs           one two three\n"
        "                          -> Do this, then that.\n"
    )


def test_lines_are_folded_between_words_on_a_terminal():
    path = "/a/long-path/" + "x" * 40
    lines = render(Finding("ok", "UCX", f"1.22.0, {path}, fine"), 60, False).splitlines()
    assert [line.strip() for line in lines[1:]] == [f"{path},", "fine"]
    assert all(line.startswith(" " * 26) for line in lines[1:])


def test_a_message_of_several_lines_stays_in_its_column():
    lines = render(Finding("ok", "UCX", "one\ntwo"), None, False).splitlines()
    assert lines == ["  ok       UCX            one", " " * 26 + "two"]


def test_the_status_is_coloured_where_colours_are():
    assert render(PROBLEM, None, True).startswith("  \x1b[1;31mproblem\x1b[0m  GPUs")


@pytest.mark.parametrize(
    ("problems", "notes", "text"),
    [
        (0, 0, "no problem found\n"),
        (1, 0, "1 problem found\n"),
        (2, 1, "2 problems, 1 note found\n"),
        (0, 3, "3 notes found\n"),
    ],
)
def test_the_last_line_counts(problems, notes, text):
    assert summary(problems, notes) == text


def test_a_problem_has_a_remedy():
    with pytest.raises(AssertionError):
        Finding("problem", "GPUs", "none")


def test_facts_are_lines_of_json_and_other_lines_are_left_out():
    begin = {"doctor": "begin", "check": "Python"}
    fact = {"doctor": "fact", "about": "python", "values": {"version": "3.11.7"}}
    data = "\n".join(["printed", json.dumps(begin), "[1]", "{}", json.dumps(fact), ""]).encode()
    reader = FactReader()
    assert reader.feed(data[:-5]) == [Fact("begin", {"check": "Python"})]
    assert reader.feed(data[-5:]) == [Fact("python", {"version": "3.11.7"})]


def test_a_section_is_shown_when_those_before_it_are_finished(capsys):
    report = Report(Screen())
    first, second = report.begin("first"), report.begin("second")
    report.add(second, [PROBLEM])
    assert capsys.readouterr().out == "first\n"
    report.add(first, [Finding("ok", "a", "b")])
    assert capsys.readouterr().out == render(Finding("ok", "a", "b"), None, False)
    report.finish(second)
    report.finish(first)
    assert capsys.readouterr().out == "second\n" + render(PROBLEM, None, False)
    report.end()
    assert capsys.readouterr().out == "1 problem found\n"
    assert report.num_problems == 1


def test_progress_is_shown_on_a_terminal_alone_and_below_the_lines(capsys, monkeypatch):
    report = Report(Screen())
    report.progress(report.begin("first"), "waiting")
    assert capsys.readouterr().out == "first\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    assert not screen.has_colours
    screen.progress("waiting")
    screen.show("line\n")
    screen.clear()
    erase = "\r\x1b[K"
    assert capsys.readouterr().out == f"{erase}waiting{erase}line\n{erase}waiting{erase}"


def test_what_an_encoding_cannot_hold_is_escaped(monkeypatch, tmp_path):
    with open(tmp_path / "out", "w", encoding="ascii") as file:
        monkeypatch.setattr("sys.stdout", file)
        Screen().show("5 µs\n")
    assert (tmp_path / "out").read_text() == "5 \\xb5s\n"
