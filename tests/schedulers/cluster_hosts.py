"""A login host and the nodes of a cluster, on one machine.

Each is a namespace for network, processes, mounts and the host's name. Folders are those of this
machine, as on a cluster with a shared file system; `/run`, `/dev/shm` and `/etc/hosts` are not.
Nothing outside of the namespaces is changed, so that several clusters can be up at a time, and all
of a host ends with the process that holds it, at the latest when the tests have ended.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil
import pytest
from deadlines import deadline_s
from run_command import ROOT, Finished

LOGIN = "login"
START_S = deadline_s(30)
COMMAND_S = deadline_s(60)
ADDRESSES = "10.77.0.{}"
NAMESPACES = ("--net", "--uts", "--pid", "--mount", "--mount-proc")
NEEDED = ("ip", "unshare", "nsenter", "setpriv")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin", "/sbin"])

# The first process of a host lives until its input ends: then all others of the host end too.
_SET_UP = """
set -e
hostname {name}
{mounts}
ip link set lo up
echo up
while read -r _; do :; done
"""
_MOUNTS_OF_LOGIN = """
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mount --bind {folder}/hosts /etc/hosts
ip link add hub type bridge
ip addr add {address}/24 dev hub
ip link set hub up
"""
_MOUNTS_OF_NODE = "mount -t tmpfs tmpfs /dev/shm"


class Running:
    """A command on a host, from the root of the repository."""

    def __init__(self, host: Host, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._files = [os.memfd_create(name) for name in ("output", "messages")]
        self._texts: list[str] = []  # of the files, when the command has ended
        enter = f"nsenter --target={host.pid} --net --mount --uts --pid".split()
        self._process = subprocess.Popen(
            [*enter, "env", f"--chdir={ROOT}", *command],  # nsenter goes to the root of all files
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return (self._texts or [*map(_text, self._files)])[0]

    @property
    def messages(self) -> str:
        """What it has printed so far to its standard error."""
        return (self._texts or [*map(_text, self._files)])[1]

    @property
    def is_alive(self) -> bool:
        """Whether it runs still."""
        return self._process.poll() is None

    def send(self, number: int) -> None:
        """Send a signal to it, and not to what it has started."""
        for process in psutil.Process(self._process.pid).children():
            process.send_signal(number)

    def finish(self, within_s: float = COMMAND_S) -> Finished:
        """Wait for its end; a command that takes longer is killed, which its status shows."""
        late = ""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            late = f"\nkilled after {within_s} s"
        self._keep_texts()
        return Finished(self._process.returncode, self.output, self.messages + late)

    def kill(self) -> None:
        """Kill it with all it has started in its group."""
        if self.is_alive:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(START_S)
        self._keep_texts()

    def _keep_texts(self) -> None:
        if not self._texts:
            self._texts = [*map(_text, self._files)]
            for file in self._files:
                os.close(file)


@dataclass
class Host:
    """A host of a cluster.

    Attributes:
        name: As the host itself and all others know it.
        address: Its IP address.
        folder: Where files of the cluster are, on all hosts.
        holder: What holds it up: when its input ends, all of the host is gone.
        pid: Its first process, by the number that it has here.
        started: The commands that `start` has started.
    """

    name: str
    address: str
    folder: Path
    holder: subprocess.Popen[bytes]
    pid: int
    started: list[Running] = field(default_factory=list)

    def start(self, command: str | Sequence[str], **variables: str) -> Running:
        """Start a command line of bash, or a command, as a user of this environment would."""
        self.started.append(self._command(command, variables))
        return self.started[-1]

    def run(
        self, command: str | Sequence[str], within_s: float = COMMAND_S, **variables: str
    ) -> Finished:
        """Run a command to its end, with a deadline."""
        return self._command(command, variables).finish(within_s)

    def check(self, command: str | Sequence[str], within_s: float = COMMAND_S) -> str:
        """Run a command that must succeed, and return what it prints."""
        finished = self.run(command, within_s)
        line = command if isinstance(command, str) else shlex.join(command)
        assert finished.status == 0, f"on {self.name}: {line}: {finished}"
        return finished.output

    def pids(self, *words: str) -> list[int]:
        """Return the processes of the host whose command line has all of these words."""
        mine = self._namespace(self.pid)
        found = []
        for process in psutil.process_iter(["pid", "cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if line and all(word in line for word in words) and self._has(process.pid, mine):
                found.append(process.pid)
        return found

    def kill(self) -> None:
        """Let the host vanish with all its processes and its cable."""
        os.kill(self.pid, signal.SIGKILL)
        self.holder.communicate(timeout=START_S)
        for command in self.started:
            command.kill()

    @property
    def is_up(self) -> bool:
        """Whether it is there."""
        return self.holder.poll() is None

    def _command(self, command: str | Sequence[str], variables: Mapping[str, str]) -> Running:
        words = ["bash", "-c", command] if isinstance(command, str) else command
        return Running(self, words, {**environment(self.folder), **variables})

    def _has(self, pid: int, namespace: str) -> bool:
        try:
            return self._namespace(pid) == namespace
        except OSError:
            return False

    @staticmethod
    def _namespace(pid: int) -> str:
        return os.readlink(f"/proc/{pid}/ns/pid")


class Hosts:
    """The login host, and nodes that can be killed and come back.

    Attributes:
        login: Where users submit jobs.
        nodes: The others, by name; `start_node` starts them. A node has the mounts that the login
            host has then.
        addresses: Those of the nodes, by name.
    """

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._folder = folder
        self.addresses = {name: ADDRESSES.format(i + 1) for i, name in enumerate(names)}
        (folder / "home").mkdir()
        known = {LOGIN: ADDRESSES.format(254), **self.addresses}
        lines = ["127.0.0.1 localhost", *(f"{known[name]} {name}" for name in known)]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        mounts = _MOUNTS_OF_LOGIN.format(folder=folder, address=known[LOGIN])
        self.login = _start(LOGIN, known[LOGIN], folder, mounts, [])
        self.nodes: dict[str, Host] = {}

    def start_node(self, name: str) -> Host:
        """Start a node, also one that was killed."""
        inside = f"nsenter --target={self.login.pid} --mount".split()
        node = _start(name, self.addresses[name], self._folder, _MOUNTS_OF_NODE, inside)
        number = self.addresses[name].rpartition(".")[2]
        # The cable of a node that was killed may be there for a moment more: a name of its own.
        plug = f"plug{number}x{node.pid}"[:15]
        _ip(self.login, f"link add {plug} type veth peer name eth0 netns {node.pid}")
        _ip(self.login, f"link set {plug} master hub up")
        _ip(node, f"addr add {node.address}/24 dev eth0")
        _ip(node, "link set eth0 up")
        _wait_until_up(node)
        self.nodes[name] = node
        return node

    def end(self) -> None:
        """End all hosts."""
        for host in [*self.nodes.values(), self.login]:
            if host.is_up:
                host.kill()


@contextmanager
def hosts_of_cluster(names: Sequence[str], folder: Path) -> Iterator[Hosts]:
    """A login host, which can start nodes of these names, until the end of the block.

    Skips the test where namespaces are not permitted.
    """
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with ExitStack() as stack:
        hosts = Hosts(names, folder)
        stack.callback(hosts.end)
        yield hosts


@cache
def why_not() -> str:
    """Return why there can be no cluster here, or nothing; tries the namespaces of one."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if missing:
        return f"a cluster on this machine needs {', '.join(missing)}"
    attempt = ["unshare", *NAMESPACES, "--fork", *["ip", "link", "add", "hub", "type", "bridge"]]
    tried = subprocess.run(attempt, capture_output=True, env={"PATH": PATH}, timeout=START_S)
    if tried.returncode != 0:
        return f"a cluster on this machine needs root and namespaces: {tried.stderr.decode()}"
    return ""


def environment(folder: Path) -> dict[str, str]:
    """Return what a user's shell has: this environment without the variables of a job."""
    of_jobs = ("TNT_", "SLURM_", "PMI", "OMPI_", "SGE_", "PBS_")
    kept = {
        name: text
        for name, text in os.environ.items()
        if name == "TNT_UCX_LIBRARY" or not name.startswith(of_jobs)
    }
    return kept | {
        "PATH": PATH,
        "HOME": str(folder / "home"),
        "TMPDIR": "/dev/shm",  # nodes share /tmp, and what they have there must not meet
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TNT_NUM_THREADS": "1",
    }


def wait_until(condition: Callable[[], bool], what: str, within_s: float = COMMAND_S) -> None:
    """Wait until a condition holds; `what` is awaited, and told if it does not come."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"awaited for {within_s} s: {what}"
        time.sleep(0.1)


def _start(name: str, address: str, folder: Path, mounts: str, inside: Sequence[str]) -> Host:
    unshare = [
        "unshare",
        "--net",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--mount-proc",
    ]
    # SIGKILL of this process, too, ends the host.
    guard = ["setpriv", "--pdeathsig", "KILL"]
    with (folder / f"{name}.log").open("ab") as log:
        holder = subprocess.Popen(
            [*guard, *inside, *unshare, "bash", "-c", _SET_UP.format(name=name, mounts=mounts)],
            env={"PATH": PATH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert holder.stdout is not None
    said = b""
    if select.select([holder.stdout], [], [], START_S)[0]:
        said = holder.stdout.readline()
    if said != b"up\n":
        holder.kill()
        holder.communicate(timeout=START_S)
        raise AssertionError(f"{name} is not up: {(folder / f'{name}.log').read_text()}")
    [first] = psutil.Process(holder.pid).children()
    return Host(name, address, folder, holder, first.pid)


def _text(file: int) -> str:
    """What is in a file, at whose end a process goes on writing."""
    return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")


def _ip(host: Host, arguments: str) -> str:
    command = ["nsenter", f"--target={host.pid}", "--net", "ip", *arguments.split()]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PATH": PATH}, timeout=START_S
    )
    assert done.returncode == 0, f"{host.name}: ip {arguments}: {done.stderr}"
    return done.stdout


def _wait_until_up(node: Host) -> None:
    """The kernel may take a second to say so, and UCX uses no device before."""
    wait_until(lambda: "state UP" in _ip(node, "link show eth0"), f"network of {node.name}")
