"""What a dry run shows of each way to start a job, line by line."""

from pathlib import Path

import pytest

from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.plan import make_plan
from tnt_launch.planning.plan_text import render_plan
from tnt_launch.planning.settings import read_settings

SNAPSHOTS = Path(__file__).with_name("snapshots")
JOB = "0123456789abcdef"
SECRET = "secret of the snapshot"
SCRIPT = ["--python-interpreter", "python", "--", "train.py", "--rate", "a b"]


def facts_of(*names):
    return [HostFacts(name, 4, working_directory="/work", address=name) for name in names]


@pytest.mark.parametrize(
    ("name", "options", "hosts"),
    [
        ("one_rank", [], ["laptop"]),
        ("two_ranks", ["-n", "2", "-x", "SEED=7", "NAME=it's"], ["laptop"]),
        ("two_ranks_over_gpi2", ["-n", "2", "-x", "TNT_TRANSPORT=gpi2"], ["laptop"]),
        ("two_ranks_over_ucx", ["-n", "2", "-x", "TNT_TRANSPORT=ucx"], ["laptop"]),
        ("ssh", ["-H", "alpha:2,beta:2"], ["alpha", "beta"]),
        ("ssh_over_ucx", ["-H", "alpha,beta", "-x", "TNT_TRANSPORT=ucx"], ["alpha", "beta"]),
        ("ssh_uneven", ["-H", "alpha:2,beta:1", "--interface", "eth1"], ["alpha", "beta"]),
    ],
)
def test_a_dry_run_shows_what_it_showed(name, options, hosts):
    spec = make_spec(parse_arguments(make_parser(), [*options, *SCRIPT]), {})
    plan = make_plan(spec, read_settings(spec, {}), facts_of(*hosts), {}, JOB, SECRET)
    assert render_plan(plan) == (SNAPSHOTS / f"{name}.txt").read_text()


def test_by_hand_the_dry_run_is_that_of_hosts_that_meet(capsys, monkeypatch, tmp_path):
    from tnt_launch.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    rendezvous = ["--nnodes", "2", "--node-rank", "1", "--rendezvous", "alpha:29400"]
    assert main(["--dry-run", *rendezvous, "-n", "2", "--no-gpu", "--", "train.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# rank")] == [
        "# rank 0 on alpha",
        "# rank 1 on alpha",
        "# rank 2 on node-1",
        "# rank 3 on node-1",
    ]
    assert "TNT_RENDEZVOUS=alpha:" in lines[-1]
