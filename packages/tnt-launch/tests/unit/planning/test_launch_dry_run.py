"""What a dry run prints can be read back, and a shell starts exactly what was planned."""

import shlex
import subprocess
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan
from tnt_launch.planning.plan_text import render_plan

# Any text that can be an argument of a process on Linux: no zero byte, encodable.
WORD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
ECHO = 'for word; do printf "%s\\0" "$word"; done'


def plan_of(folder, argv, environment, size=1):
    ranks = tuple(RankPlan(rank, "alpha", tuple(argv), environment) for rank in range(size))
    return LaunchPlan("job", (HostPlan("alpha", folder, ranks),), 0, False)


@given(folder=WORD, argv=st.lists(WORD, min_size=1), environment=st.dictionaries(NAME, WORD))
@example(folder="/", argv=["a=b", "~", "#", "", "a'b", '"', "\n", "$x"], environment={"A": "=#\n"})
def test_splitting_the_text_like_a_shell_gives_the_plan_back(folder, argv, environment):
    text = render_plan(plan_of(folder, argv, environment))
    words = shlex.split(text, comments=True)
    assert words == ["cd", folder, "&&", *(f"{k}={v}" for k, v in environment.items()), *argv]


def test_every_rank_is_one_command_behind_a_comment():
    lines = render_plan(plan_of("/", ["python", "a.py"], {"A": "1"}, size=3)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["cd / && A=1 python a.py"] * 3
    assert [line for line in lines if line.startswith("# rank")] == [
        f"# rank {rank} on alpha" for rank in range(3)
    ]


@settings(max_examples=20, deadline=None)
@given(words=st.lists(WORD, max_size=5), value=WORD)
@example(words=["a b", "c'd", "e\nf", "", "$HOME", "`date`", "ü=ß", "*", "!"], value="x \n'\"$A")
def test_a_shell_passes_on_exactly_the_arguments_and_the_value(words, value):
    program = 'printf "%s\\0" "$VALUE"; ' + ECHO
    text = render_plan(plan_of("/", ["sh", "-c", program, "sh", *words], {"VALUE": value}))
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [value, *words]


@pytest.mark.parametrize("name", ["a=b", "=", "PATH=x"])
def test_a_program_whose_name_looks_like_an_assignment_stays_a_program(tmp_path, name):
    program = tmp_path / name
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o700)
    text = render_plan(plan_of("/", [str(program)], {}))
    done = subprocess.run(["sh"], input=text.encode(), capture_output=True, timeout=60, check=True)
    assert done.stdout == b"started\n"


def test_a_bound_rank_is_started_on_its_cpus():
    rank = RankPlan(0, "alpha", ("a=b", "c"), {"A": "1"}, cpus=(0, 1, 2, 5))
    plan = LaunchPlan("job", (HostPlan("alpha", "/", (rank,)),), 0, False)
    assert render_plan(plan).splitlines()[-1] == "cd / && A=1 taskset -c 0-2,5 'a=b' c"


def test_a_folder_for_output_is_told_in_one_line_of_comment():
    plan = replace(plan_of("/", ["a"], {}), output_dir="/logs\nof mine")
    told = "# all output of each rank is also written to files in '/logs\\nof mine'"
    assert told in render_plan(plan).splitlines()
