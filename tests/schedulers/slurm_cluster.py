"""SLURM on a login host and two nodes, and what its users type."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster_hosts import (
    COMMAND_S,
    PATH,
    START_S,
    Host,
    Hosts,
    Running,
    hosts_of_cluster,
    wait_until,
)
from deadlines import deadline_s
from run_command import Finished

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "srun")
NODES = ("n1", "n2")
CPUS = 4
KILL_WAIT_S = 5
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY")

# Ports are the usual ones, since the network is one of the cluster's own. The nodes' CPUs are
# invented, so tasks are bound to none, and two files stand for their GPUs.
_SLURM_CONF = """
ClusterName=tests
SlurmctldHost={login.name}({login.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
SlurmdTimeout={node_timeout:.0f}
MessageTimeout={node_timeout:.0f}
InactiveLimit=0
EnforcePartLimits=ALL
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP MaxTime=60 PriorityTier=1 GraceTime=5
PartitionName=urgent Nodes=ALL State=UP MaxTime=60 PriorityTier=10 PreemptMode=OFF
"""
_NODE = "NodeName={} NodeAddr={} CPUs={} RealMemory=4000 Gres=gpu:2\n"
_GPUS = "NodeName={0} Name=gpu File=/dev/null\nNodeName={0} Name=gpu File=/dev/zero\n"
# Debian's plugin opens PMIx by a name that only the package for compilers has.
_SET_UP = """
set -e
mount --bind {folder}/etc /etc/slurm
mkdir -m 755 /run/munge
if [ -e {pmix}/libpmix.so.2 ] && [ ! -e {pmix}/libpmix.so ]; then
  mkdir {folder}/pmix
  cp -a {pmix}/. {folder}/pmix
  ln -s libpmix.so.2 {folder}/pmix/libpmix.so
  mount --bind {folder}/pmix {pmix}
fi
dd if=/dev/urandom of={folder}/munge.key bs=128 count=1 status=none
chmod 400 {folder}/munge.key
exec munged --force --key-file={folder}/munge.key --log-file={folder}/munged.log \
  --pid-file=/run/munge/munged.pid --seed-file={folder}/munge.seed
"""


@dataclass
class Job:
    """A job that was submitted.

    Attributes:
        slurm: Where.
        number: As SLURM counts.
        file: What its script prints.
    """

    slurm: Slurm
    number: int
    file: Path

    @property
    def output(self) -> str:
        """What its script and steps have printed so far."""
        return self.file.read_text(errors="replace") if self.file.exists() else ""

    def facts(self) -> dict[str, str]:
        """Return what `scontrol show job` says: `JobState`, `ExitCode`, `Restarts` and others."""
        told = self.slurm.check(f"scontrol --oneliner show job {self.number}")
        return dict(word.partition("=")[::2] for word in told.split() if "=" in word)

    @property
    def state(self) -> str:
        """`PENDING`, `RUNNING`, `COMPLETED` and so on."""
        return self.facts()["JobState"]

    def wait_for(self, *states: str, within_s: float = COMMAND_S) -> str:
        """Wait until the job is in one of these states, and return it; without any, for its end."""
        awaited = states or ENDED
        found = ""

        def is_there() -> bool:
            nonlocal found
            found = self.state
            assert found in awaited or found not in ENDED, (
                f"job {self.number} is {found} instead of {awaited}: {self.output}"
            )
            return found in awaited

        wait_until(is_there, f"job {self.number} in one of {awaited}", within_s)
        return found

    def wait_for_output(self, words: str, within_s: float = COMMAND_S) -> None:
        """Wait until the job has printed some words, which it cannot do any more when it ends."""

        def is_said() -> bool:
            has_ended, said = self.state in ENDED, words in self.output
            assert said or not has_ended, (
                f"job {self.number} ended without {words!r}: {self.output}"
            )
            return said

        wait_until(is_said, f"{words!r} of job {self.number}", within_s)

    def signal(self, name: str, *options: str) -> None:
        """Send a signal with `scancel`: to all steps, or to the script with `--batch`."""
        self.slurm.check(["scancel", f"--signal={name}", *options, str(self.number)])

    def cancel(self) -> None:
        """End the job, as `scancel` does without options."""
        self.slurm.check(f"scancel {self.number}")

    def requeue(self) -> None:
        """Run it again, from the start."""
        self.slurm.check(f"scontrol requeue {self.number}")

    def run_again_now(self) -> None:
        """Wait until the job that was requeued is pending, and end the two minutes it must wait."""
        self.wait_for("PENDING")
        # A node refuses what is started in the second in which the job's first life has ended.
        self.slurm.check(f"scontrol update JobId={self.number} StartTime=now+2")

    def result(self, within_s: float = COMMAND_S) -> tuple[str, str]:
        """Wait for the end, and return its state, and exit code and signal as SLURM writes them."""
        self.wait_for(within_s=within_s)
        facts = self.facts()
        return facts["JobState"], facts["ExitCode"]


class Slurm:
    """SLURM with its login host and two nodes of four CPUs and two GPUs that are none.

    Attributes:
        hosts: Where it runs.
        folder: Its files and logs, and those of the hosts.
    """

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        self._num_jobs = 0
        self._jobs: list[Job] = []
        self._daemons: dict[str, Running] = {}

    def bring_up(self) -> None:
        """Start all daemons, and wait until jobs can be run."""
        self._write_configuration()
        pmix = next(Path("/usr/lib").glob("*/pmix2/lib"), Path("/nowhere"))
        self.check(_SET_UP.format(folder=self.folder, pmix=pmix))
        self._daemons["slurmctld"] = self.login.start(["slurmctld", "-D", "-c"])
        for name in NODES:
            self.start_node(name)
        self.wait_until_idle()

    @property
    def login(self) -> Host:
        """The host where users submit jobs."""
        return self.hosts.login

    def check(self, command: str | Sequence[str]) -> str:
        """Run a command that must succeed on the login host, and return what it prints."""
        return self.login.check(command)

    def run(self, command: str | Sequence[str], within_s: float = COMMAND_S) -> Finished:
        """Run a command on the login host: `srun -n 2 python train.py`, `salloc ...`."""
        return self.login.run(command, within_s)

    def start(self, command: str | Sequence[str]) -> Running:
        """Start a command on the login host."""
        return self.login.start(command)

    def sbatch(self, script: str, *options: str) -> Job:
        """Submit lines of a shell script, which are run on the first node of the job.

        Args:
            script: What the script has after its first line.
            options: Of sbatch. Without `--time` the job is ended after ten minutes.
        """
        self._num_jobs += 1
        file = self.folder / f"script-{self._num_jobs}.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        output = file.with_suffix(".out")
        usual = ["--parsable", "--time=10", f"--output={output}", "--open-mode=append"]
        number = self.check(["sbatch", *usual, *options, str(file)])
        job = Job(self, int(number), output)
        self._jobs.append(job)
        return job

    def states(self) -> dict[str, str]:
        """Return the state of each node: `idle`, `allocated`, `mixed`, `down*` and others."""
        words = self.check("sinfo --Node --noheader --partition=main --format='%N %T'").split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def wait_until_idle(self) -> None:
        """Wait until both nodes can take jobs, and none is there."""

        def is_idle() -> bool:
            told = self.run("sinfo --Node --noheader --partition=main --format=%T")
            return told.output.split() == ["idle"] * len(NODES)

        wait_until(is_idle, "idle nodes of SLURM", START_S)

    def kill(self, name: str) -> None:
        """Let a node vanish."""
        self.hosts.nodes[name].kill()

    def start_node(self, name: str) -> None:
        """Start a node, also one that has vanished: nothing is on it."""
        (self.folder / f"spool-{name}").mkdir(exist_ok=True)
        node = self.hosts.start_node(name)
        self._daemons[f"slurmd on {name}"] = node.start(["slurmd", "-D", "-N", name])

    def tidy_up(self) -> None:
        """End all jobs, and bring back nodes that have vanished: ready for the next test."""
        for name, node in list(self.hosts.nodes.items()):
            if not node.is_up:
                self.start_node(name)
        self.check("scancel --user=root; scancel --user=root --signal=KILL --full")
        self.wait_until_idle()
        self._jobs.clear()

    def logs(self) -> Iterator[tuple[str, str]]:
        """Return names and texts of all logs, and of what the jobs of a test have printed."""
        yield "hosts", "".join(path.read_text() for path in self.folder.glob("*.log"))
        for name, daemon in self._daemons.items():
            yield name, daemon.messages
        for job in self._jobs:
            yield f"job {job.number}", job.output

    def _write_configuration(self) -> None:
        files = {
            "slurm.conf": _SLURM_CONF.format(
                login=self.login,
                folder=self.folder,
                nodes="".join(_NODE.format(*each, CPUS) for each in self.hosts.addresses.items()),
                kill_wait=KILL_WAIT_S,
                node_timeout=deadline_s(10),
            ),
            "gres.conf": "".join(map(_GPUS.format, NODES)),
            # What PMIx makes on each node must not meet in the /tmp that they share.
            "mpi.conf": "PMIxCliTmpDirBase=/dev/shm\n",
            "cgroup.conf": "CgroupAutomount=no\n",
        }
        (self.folder / "etc").mkdir()
        for name, text in files.items():
            (self.folder / "etc" / name).write_text(text)


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[Slurm]:
    """SLURM until the end of the block; skips the test where there can be none."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: install slurm-wlm and munge")
    with hosts_of_cluster(NODES, folder) as hosts:
        slurm = Slurm(hosts, folder)
        try:
            slurm.bring_up()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{dict(slurm.logs())}") from error
        yield slurm
