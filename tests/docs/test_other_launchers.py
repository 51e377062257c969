"""What the page on other launchers tells to type is taken; what it replaces is, too, or told."""

import re
import shlex

import pytest
from run_command import ROOT

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.other_words import advice_for_other_words
from tnt_launch.planning.scheduler_job import in_scheduler_job

PAGE = (ROOT / "docs/howto/come_from_other_launchers.md").read_text("utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
JOB_OF_TWO_HOSTS = {
    "SLURM_JOB_NODELIST": "a,b",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "2(x2)",
}


def commands(cell, *programs):
    """The command lines of a cell, with a script."""
    found = [shlex.split(code) for code in re.findall(r"`([^`]+)`", cell)]
    lines = [words for words in found if words[0] in programs]
    return [[word for word in words if word != "..."] for words in lines]


def spec_of(words, environment):
    words = words if {"train.py", "train"} & {*words} else [*words, "--", "train.py"]
    spec = make_spec(parse_arguments(make_parser(), words[1:]), {"SEED": "7"})
    return in_scheduler_job(spec, environment, open)


HERE = [words for row in ROWS for words in commands(row[1], "tarantella")]


@pytest.mark.parametrize("words", HERE, ids=shlex.join)
def test_each_line_for_tarantella_is_taken(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text("a\nb\n")
    needs_hosts = "-N" in words
    assert spec_of(words, JOB_OF_TWO_HOSTS if needs_hosts else {}).script in ("train.py", "train")


@pytest.mark.parametrize(
    ("line", "ranks"), [("-np 4 -H a:2,b:2", 4), ("-H a:2,b:2 --", 4), ("-N 2 -n 2", 4)]
)
def test_the_lines_for_four_ranks_mean_four(line, ranks):
    assert f"{line} " in PAGE
    spec = spec_of(["tarantella", *line.split(), "train.py"], JOB_OF_TWO_HOSTS)
    counts = [spec.ranks_per_node or host.slots for host in spec.hosts]
    assert sum(counts) == ranks


OTHERS = ("mpirun", "torchrun", "horovodrun", "accelerate", "deepspeed")
THERE = [words for row in ROWS for words in commands(row[0], *OTHERS)]


@pytest.mark.parametrize("words", THERE, ids=shlex.join)
def test_each_option_of_another_launcher_is_taken_or_told(words):
    for word in words[1:]:
        if not word.startswith("-"):
            continue
        try:
            parse_arguments(make_parser(), [word, "1", "--", "train.py"])
        except LaunchError as error:
            is_known = "unrecognized" not in str(error)
            assert is_known or advice_for_other_words([word]), word
