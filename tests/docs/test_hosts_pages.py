"""The commands of the pages on several hosts, as they stand there, on hosts with nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import network_namespaces
import pytest
from run_command import ROOT
from ssh_hosts import ssh_cluster

SCRIPT = "import os; print('rank', os.environ['TNT_RANK'], 'of', os.environ['TNT_SIZE'])\n"


def commands_of(page):
    """All blocks of commands on a page."""
    text = (ROOT / "docs/howto" / page).read_text("utf-8")
    return re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def start(prefix, commands, folder):
    """A shell in a network, in which the commands are given."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith("TNT_")}
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables["XDG_CONFIG_HOME"] = str(folder)
    return subprocess.Popen(
        [*prefix, "bash", "-e", "-c", commands],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def ssh_hosts(tmp_path_factory):
    names = [f"node{number:02}" for number in range(1, 5)]
    with ssh_cluster(names, tmp_path_factory.mktemp("ssh")) as cluster:
        yield cluster


PAGE = commands_of("run_on_several_hosts.md")
HOSTS_FILE = next(block for block in PAGE if block.startswith("# hosts.txt"))
JOBS = [block for block in PAGE if "-- train.py" in block]


@pytest.mark.parametrize("command", JOBS, ids=[str(number) for number in range(len(JOBS))])
def test_jobs_by_ssh_run_as_they_stand_there(ssh_hosts, tmp_path, command):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "hosts.txt").write_text(HOSTS_FILE.replace("01-16", "01-04"))
    there = command.replace("10.1.0.0/16", "10.201.7.0/24")
    quiet = there.replace("tarantella", f"tarantella --no-gpu --ssh '{ssh_hosts.ssh}'")
    with start(ssh_hosts.prefix, quiet, tmp_path) as job:
        out, err = job.communicate(timeout=120)
    assert (job.returncode, err) == (0, "")
    size = 8 if "-H" in command else 16
    assert out == f"rank 0 of {size}\n"


def test_launchers_by_hand_meet_as_it_stands_there(tmp_path):
    first, second, secret, *_ = commands_of("start_by_hand.md")
    (tmp_path / "train.py").write_text(SCRIPT)
    with network_namespaces.cluster((1, 1)) as (alpha, beta):
        fixed = [
            commands.replace("alpha:", f"{alpha.address}:").replace("-n 4", "-n 4 --no-gpu")
            for commands in (first, second)
        ]
        with (
            start(beta.prefix, fixed[1], tmp_path) as other,
            start(alpha.prefix, fixed[0], tmp_path) as one,
        ):
            try:
                assert one.communicate(timeout=120) == ("rank 0 of 8\n", "")
                assert other.communicate(timeout=120) == ("", "")
            finally:
                one.kill()
                other.kill()
        with start(alpha.prefix, secret + "\necho $TNT_JOB_SECRET", tmp_path) as shell:
            assert len(shell.communicate(timeout=60)[0].strip()) == 32
