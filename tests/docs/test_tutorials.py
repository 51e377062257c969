"""The commands of a tutorial run, print what the page shows, and end alike on any ranks.

They run in forks of a process that has imported TensorFlow. In the long tail `test_commands.py`
starts them as they stand on the page.
"""

import re
import shlex

import keras  # noqa: F401  so that ranks are forks of a process that has imported TensorFlow
import pytest
from page_commands import commands_of, run_script
from rank_pools import ENVIRONMENT
from run_command import ROOT, run_command

from tnt_comm.testing import observe_ranks

PAGES = {
    page.stem: page
    for page in sorted(ROOT.glob("docs/tutorials/*.md"))
    if "examples/tutorials" in " ".join(commands_of(page))
}
PROGRAM = re.compile(r"(?:python|tarantella -n (\d) --) (\S+\.py)(.*?)(?: \|\| echo .*)?")
TEXT = re.compile(r"^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
TO_BE_CONTINUED = 75  # exit code


def outputs_of(page, preloaded):
    """What each script of a page prints on the master rank."""
    for command in commands_of(page):
        program = PROGRAM.fullmatch(command)
        if program is not None:
            size, script, arguments = program.groups()
            yield output_of(int(size or 1), script, shlex.split(arguments), preloaded)
        elif not command.startswith("pip "):
            assert run_command(command).status == 0, command


def output_of(size, script, arguments, preloaded):
    """What a script prints on the master rank of some."""
    reports = observe_ranks(
        run_script, size, script, arguments, env=ENVIRONMENT, preloaded=preloaded
    )
    for report in reports:
        assert not report.has_failed or report.exit_code == TO_BE_CONTINUED, report.full_text()
    return reports[0].output


def numbers(line):
    return [float(number) for number in NUMBER.findall(line)]


def last_lines(outputs, shown):
    """Lines of the outputs that differ from a shown one in nothing but numbers."""
    lines = [line for output in outputs for line in output.splitlines()]
    return [line for line in lines if NUMBER.sub("", line) == NUMBER.sub("", shown)]


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_tutorial_print_what_it_shows_on_any_ranks(name, preloaded):
    texts = TEXT.findall(PAGES[name].read_text(encoding="utf-8"))
    [shown] = [text for text in texts if "\n" not in text]
    outputs = list(outputs_of(PAGES[name], preloaded))
    printed = re.sub(r"\S*examples/tutorials/", "", "".join(outputs))
    assert [text for text in texts if text not in printed and text != shown] == []
    serial, *others = last_lines(outputs, shown)
    assert others
    for line in others:
        assert numbers(line) == pytest.approx(numbers(serial), rel=1e-3, abs=5e-3)
    # Another processor rounds differently, of which some trainings make more.
    assert numbers(serial) == pytest.approx(numbers(shown), rel=0.2, abs=0.1)
