"""Grid Engine on a login host and two nodes, and what its users type."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster_hosts import COMMAND_S, PATH, START_S, Host, Hosts, hosts_of_cluster, wait_until
from run_command import Finished

NEEDED = ("sge_qmaster", "sge_execd", "qsub", "qrsh")
NODES = ("n1", "n2")
SLOTS = 4
PARALLEL_ENVIRONMENT = "tnt"

# What Debian's package would do for the whole machine: the files of a cell, below mounts that only
# this cluster has. Its jobs are root's, which is not usual.
_START_MASTER = """
set -e
cell=/var/lib/gridengine/default spool=/var/spool/gridengine
defaults=/usr/share/gridengine/default-configuration
cp -a /var/lib/gridengine {folder}/root
mkdir -p {folder}/spool/execd {folder}/spool/spooldb {folder}/spool/qmaster/job_scripts
sed -e 's/^\\(min_[ug]id\\).*/\\1 0/' -e 's/^load_report_time.*/load_report_time 00:00:01/' \
  -e 's/^login_shells.*/login_shells none/' \
  -e 's/flush_time=[0-9:]*/accounting_flush_time=00:00:00 &/' $defaults > {folder}/configuration
mount --bind {folder}/root /var/lib/gridengine
mount --bind {folder}/spool $spool
mount --bind {folder}/configuration $defaults
rm -rf $cell
mkdir -p $cell/common /run/gridengine
cp /usr/share/gridengine/default-bootstrap $cell/common/bootstrap
echo {login.name} > $cell/common/act_qmaster
chown -R sgeadmin /var/lib/gridengine $spool /run/gridengine
setpriv --reuid=sgeadmin --regid=sgeadmin --clear-groups \
  /usr/share/gridengine/scripts/init_cluster /var/lib/gridengine default $spool/spooldb sgeadmin
SGE_ROOT=/var/lib/gridengine /usr/lib/gridengine/spooldefaults managers root
sge_qmaster
"""
_ADD_NODES = """
set -e
qconf -as {login.name}
qconf -ah {nodes}
qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' \
  -e 's/^\\(flush_[a-z]*_sec\\).*/\\1 1/' > {folder}/scheduler
qconf -Msconf {folder}/scheduler
qconf -Ap {folder}/parallel_environment
qconf -sq | sed -e 's/^qname.*/qname main.q/' -e 's/^hostlist.*/hostlist {nodes}/' \
  -e 's/^pe_list.*/pe_list {environment}/' -e 's/^slots.*/slots {slots}/' \
  -e 's|^shell .*|shell /bin/bash|' -e 's|^tmpdir.*|tmpdir /dev/shm|' \
  -e 's/^load_thresholds.*/load_thresholds NONE/' > {folder}/queue
qconf -Aq {folder}/queue
"""
_PARALLEL_ENVIRONMENT = """\
pe_name {name}
slots 99
user_lists NONE
xuser_lists NONE
start_proc_args /bin/true
stop_proc_args /bin/true
allocation_rule 2
control_slaves TRUE
job_is_first_task FALSE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""


@dataclass
class Job:
    """A job that was submitted.

    Attributes:
        engine: Where.
        number: As Grid Engine counts.
        file: What its script prints.
    """

    engine: GridEngine
    number: int
    file: Path

    @property
    def output(self) -> str:
        """What its script, and what that has started, have printed so far."""
        return self.file.read_text(errors="replace") if self.file.exists() else ""

    @property
    def state(self) -> str:
        """`qw`, `r`, `Rr` and so on as `qstat` shows it; empty when the job has ended."""
        lines = [line.split() for line in self.engine.check("qstat").splitlines()]
        return next((words[4] for words in lines if words[:1] == [str(self.number)]), "")

    def wait_for(self, *states: str, within_s: float = COMMAND_S) -> None:
        """Wait until the job is in one of these states; without any, for its end."""
        awaited = states or ("",)
        what = f"job {self.number} in one of {awaited}"
        wait_until(lambda: self.state in awaited, what, within_s)

    def wait_for_output(self, words: str, within_s: float = COMMAND_S) -> None:
        """Wait until the job has printed some words."""
        wait_until(lambda: words in self.output, f"{words!r} of job {self.number}", within_s)

    def result(self, within_s: float = COMMAND_S) -> str:
        """Wait for the end, and return the exit code as `qacct` shows it."""
        self.wait_for(within_s=within_s)
        return self.facts()["exit_status"]

    def facts(self) -> dict[str, str]:
        """Return what `qacct` says of a job that has ended, of its last life if it had several."""
        told = ""

        def is_accounted() -> bool:
            nonlocal told
            asked = self.engine.run(f"qacct -j {self.number}")
            told = asked.output
            return asked.status == 0

        wait_until(is_accounted, f"account of job {self.number}")
        pairs = (line.split(None, 1) for line in told.splitlines())
        return {pair[0]: pair[-1].strip() for pair in pairs if pair}

    def cancel(self) -> None:
        """End the job."""
        self.engine.check(f"qdel {self.number}")


class GridEngine:
    """Grid Engine with its login host and two nodes of four slots.

    Attributes:
        hosts: Where it runs.
        folder: Its files and logs, and those of the hosts.
    """

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self._num_jobs = 0
        self._jobs: list[Job] = []

    def bring_up(self) -> None:
        """Start all daemons, and wait until jobs can be run."""
        self.check(_START_MASTER.format(login=self.login, folder=self.folder))
        for name in NODES:
            self.hosts.start_node(name)
        text = _PARALLEL_ENVIRONMENT.format(name=PARALLEL_ENVIRONMENT)
        (self.folder / "parallel_environment").write_text(text)
        values = {"nodes": ",".join(NODES), "environment": PARALLEL_ENVIRONMENT, "slots": SLOTS}
        self.check(_ADD_NODES.format(login=self.login, folder=self.folder, **values))
        for daemon in [node.start("sge_execd") for node in self.hosts.nodes.values()]:
            daemon.finish()
        self.wait_until_idle()

    @property
    def login(self) -> Host:
        """The host where users submit jobs."""
        return self.hosts.login

    def check(self, command: str | Sequence[str]) -> str:
        """Run a command that must succeed on the login host, and return what it prints."""
        return self.login.check(command)

    def run(self, command: str | Sequence[str], within_s: float = COMMAND_S) -> Finished:
        """Run a command on the login host."""
        return self.login.run(command, within_s)

    def qsub(self, script: str, *options: str) -> Job:
        """Submit lines of a shell script.

        Args:
            script: What the script has after its first line.
            options: Of qsub, `-pe tnt 4` for instance.
        """
        self._num_jobs += 1
        file = self.folder / f"script-{self._num_jobs}.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        output = file.with_suffix(".out")
        usual = ["-terse", "-V", "-cwd", "-j", "y", "-o", str(output)]
        number = self.check(["qsub", *usual, *options, str(file)])
        self._jobs.append(Job(self, int(number), output))
        return self._jobs[-1]

    def wait_until_idle(self) -> None:
        """Wait until both nodes can take jobs, and none is there."""

        def is_idle() -> bool:
            told = self.run("qstat -f").output
            lines = [line.split() for line in told.splitlines()]
            # A sixth column tells what is wrong.
            nodes = [words for words in lines if words and words[0].startswith("main.q@")]
            idle = [words[2] == f"0/0/{SLOTS}" and len(words) == 5 for words in nodes]
            return "PENDING" not in told and idle == [True] * len(NODES) and "-NA-" not in told

        wait_until(is_idle, "idle nodes of Grid Engine", START_S)

    def tidy_up(self) -> None:
        """End all jobs: ready for the next test."""
        self.run("qdel -f -u root")
        self.wait_until_idle()
        self._jobs.clear()

    def logs(self) -> Iterator[tuple[str, str]]:
        """Return names and texts of all logs, and of what the jobs of a test have printed."""
        for path in [*self.folder.glob("*.log"), *self.folder.glob("spool/**/messages")]:
            yield str(path.relative_to(self.folder)), path.read_text(errors="replace")
        for job in self._jobs:
            yield f"job {job.number}", job.output


@contextmanager
def grid_engine_cluster(folder: Path) -> Iterator[GridEngine]:
    """Grid Engine until the end of the block; skips the test where there can be none."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: install gridengine-master, -exec and -client")
    with hosts_of_cluster(NODES, folder) as hosts:
        engine = GridEngine(hosts, folder)
        try:
            engine.bring_up()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{dict(engine.logs())}") from error
        yield engine
