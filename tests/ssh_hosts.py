"""Hosts with an sshd each, on one machine: namespaces for network, processes and shared memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import network_namespaces
import pytest

START_S = 20.0
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")

_SSHD_CONFIG = """
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
MaxStartups 100:30:200
LogLevel ERROR
"""
_SSH_CONFIG = """
Host {name}
  HostName {address}
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  HostKeyAlias all
  StrictHostKeyChecking yes
"""
# Private shared memory, as hosts have it; /run/sshd is where sshd locks its children up.
_NODE = "hostname {name} && mount -t tmpfs tmpfs /dev/shm && exec {sshd} -D -e -f {folder}/config"


@dataclass
class SshHost:
    """A host that ssh reaches.

    Attributes:
        name: As ssh and users know it.
        address: Its IP address.
        namespace: Its network namespace.
        process: What holds it up; when it is killed, all of the host is gone.
    """

    name: str
    address: str
    namespace: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Let the host vanish with all its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def cut(self) -> None:
        """Pull its cable."""
        ip(f"-n {self.namespace} link set eth0 down")

    def pids(self, *words: str) -> list[int]:
        """Return the processes of the host whose command line has all of these words."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or not self._has(entry):
                continue
            with contextlib.suppress(OSError):
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                if all(word in line for word in words) and line:
                    found.append(int(entry.name))
        return found

    def _has(self, entry: Path) -> bool:
        try:
            return os.readlink(entry / "ns/net") == self._network
        except OSError:
            return False

    @property
    def _network(self) -> str:
        return f"net:[{os.stat(f'/run/netns/{self.namespace}').st_ino}]"


@dataclass
class SshCluster:
    """Hosts, and where a launcher runs that reaches them.

    Attributes:
        hosts: The hosts.
        ssh: Command of ssh that knows them.
        prefix: Command that runs a program in the network of the hosts, on none of them.
    """

    hosts: Sequence[SshHost]
    ssh: str
    prefix: tuple[str, ...]


def ip(arguments: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True, timeout=30)


@contextmanager
def ssh_cluster(names: Sequence[str], folder: Path) -> Iterator[SshCluster]:
    """Hosts of these names until the end of the block; keys and settings are in `folder`.

    Skips the test where namespaces are not permitted or there is no sshd.
    """
    if SSHD is None:
        pytest.skip("there is no sshd: install openssh-server")
    _write_settings(folder)
    hosts: list[SshHost] = []
    with network_namespaces.cluster([0] * (len(names) + 1)) as (here, *places):
        try:
            for name, place in zip(names, places, strict=True):
                hosts.append(_start(name, place.address, place.prefix[-1], folder))
            with open(folder / "ssh_config", "w") as config:
                for host in hosts:
                    values = {"name": host.name, "address": host.address, "folder": folder}
                    config.write(_SSH_CONFIG.format(**values))
            for host in hosts:
                _wait_until_it_listens(host, here.prefix, folder)
            yield SshCluster(hosts, f"ssh -F {folder}/ssh_config", here.prefix)
        finally:
            for host in hosts:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(host.process.pid, signal.SIGKILL)
                host.process.wait(30)


def _write_settings(folder: Path) -> None:
    for name in ("key", "host_key"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(keygen, check=True, timeout=30)
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"all {public}")
    (folder / "config").write_text(_SSHD_CONFIG.format(folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)


def _start(name: str, address: str, namespace: str, folder: Path) -> SshHost:
    command = _NODE.format(name=name, sshd=SSHD, folder=folder)
    unshare = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / f"sshd-{name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *unshare, "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    return SshHost(name, address, namespace, process)


def _wait_until_it_listens(host: SshHost, prefix: Sequence[str], folder: Path) -> None:
    end = time.monotonic() + START_S
    ssh = [*prefix, "ssh", "-F", str(folder / "ssh_config"), host.name, "true"]
    while subprocess.run(ssh, capture_output=True, timeout=30).returncode != 0:
        log = (folder / f"sshd-{host.name}.log").read_text()
        assert time.monotonic() < end, f"{host.name} cannot be reached: {log}"
        time.sleep(0.05)
