"""Every command about benchmarks in the documentation is run, or marked with what it needs.

A mark is a comment above the block: `<!-- needs: peers -->`. A marked command is not run, but the
benchmark must exist and take its options.
"""

import importlib
import re
import shlex

import pytest
from cases import cases
from run_command import ROOT, run_command

PAGES = [*ROOT.glob("benchmarks/**/*.md"), ROOT / "docs/explanation/performance.md"]
BLOCK = re.compile(r"^(<!-- needs: [^\n]+ -->\n)?```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r'nox -s "bench\((\w+)\)"(?: -- (.*))?')
MODULE = re.compile(r"python -m benchmarks\.(\w+)(?:\.\w+)?( .*)?")


def commands(*, marked):
    """Commands of all pages."""
    found = []
    for page in PAGES:
        for mark, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            if bool(mark) == marked:
                found += block.splitlines()
    return list(dict.fromkeys(found))


WITH_TESTS = (
    "first_step", "input", "kernels", "lanes", "overlap", "same_bits", "simulate", "startup",
    "step_cost", "training",
)  # fmt: skip
"""Benchmarks with a test module of their own, which runs them in the same way."""


def is_run_elsewhere(command):
    return MODULE.fullmatch(command)[1] in WITH_TESTS


PROGRAMS = commands(marked=False)


@cases("command", [each for each in PROGRAMS if not is_run_elsewhere(each)], thorough=PROGRAMS)
def test_a_command_without_a_mark_succeeds(command):
    finished = run_command(command)
    assert finished.status == 0, finished.output + finished.messages


def test_each_benchmark_has_a_command_that_is_run():
    benchmarks = {path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py")}
    assert {MODULE.fullmatch(command)[1] for command in commands(marked=False)} == benchmarks


SESSIONS = [command for command in commands(marked=True) if command.startswith("nox")]


@pytest.mark.parametrize("command", SESSIONS)
def test_a_marked_session_takes_its_options(command):
    name, options = SESSION.fullmatch(command).groups()
    parser = importlib.import_module(f"benchmarks.{name}.__main__").make_parser()
    parser.parse_args(shlex.split(options or ""))


OTHERS = ("install", "venv", "benchmarks.compare ", "benchmarks.provenance ")


def test_marked_commands_are_sessions_make_environments_of_peers_or_use_what_was_measured():
    others = [command for command in commands(marked=True) if command not in SESSIONS]
    assert all(any(word in command for word in OTHERS) for command in others)
