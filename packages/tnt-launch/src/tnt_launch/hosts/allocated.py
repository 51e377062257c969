"""Hosts of an allocation on which the scheduler starts agents that connect to the launcher."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tnt_launch.hosts.authentication import user_secret
from tnt_launch.hosts.channel import Frame
from tnt_launch.hosts.dial_in import MAX_PENDING, DialInCluster
from tnt_launch.hosts.ssh import carried_environment, search_path
from tnt_launch.planning.addresses import (
    address_on,
    own_address_towards,
    own_addresses,
    which_is_this_host,
)
from tnt_launch.planning.allocation import Allocation
from tnt_launch.planning.host_facts import version_difference
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import INTERFACE, JOB_SECRET

AGENT = "tnt_launch.hosts.dial_in_agent"
CONNECT_S = 60.0  # time that the scheduler has to start all agents
_REPORT_S = 60.0  # time that all hosts then have to tell about themselves

# What is left to srun of the variables of SLURM: others are options of it, such as the cores and
# GPUs of a task, that were meant for the tasks of the user.
_FOR_SRUN = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_WORKING_CLUSTER")
_OF_SLURM = ("SLURM_", "SLURMD_", "SRUN_")
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NAMES_OF_HOST = ("HOST", "HOSTNAME")


class AllocatedCluster(DialInCluster):
    """The hosts that a scheduler has given; see `Cluster`."""

    def __init__(self, spec: LaunchSpec, settings: Settings, allocation: Allocation) -> None:
        # What passes its variables on to the user's processes alone can bring a new secret.
        secret = settings.get(JOB_SECRET) if allocation.is_one_step else user_secret(settings)
        super().__init__(spec, settings, secret or "", MAX_PENDING + len(spec.hosts))
        self.hosts = list(spec.hosts)
        self._allocation = allocation
        self._nodes = {host.name: node for node, host in enumerate(spec.hosts)}
        self._ends: list[str] = []  # port and addresses at which agents find this process
        self._alone: set[int] = set()  # hosts for which a command of their own was given
        if allocation.is_one_step:
            self.here = self._nodes.get(allocation.here)
        else:
            self.here = which_is_this_host(list(self._nodes))

    def _reach(self) -> float:
        if self.here is not None:
            self.facts[self.here] = self._inspect_here()
        others = [node for node in range(len(self.hosts)) if node != self.here]
        if others:
            self._start_agents(others)
        end = time.monotonic() + CONNECT_S
        while (missing := {*others} - self._come - {*self._errors}) and time.monotonic() < end:
            self._wait(min(end, time.monotonic() + 0.5))
            self._drop_silent()
        self._stop_listening()
        for node in missing:
            said = self._children.said_of(node)
            self._errors[node] = f"no agent has connected from it within {CONNECT_S:g} s{said}"
        return _REPORT_S

    def _start_agents(self, nodes: Sequence[int]) -> None:
        name, own = self._settings.get(INTERFACE), own_addresses()
        if name:
            address = address_on(os.uname().nodename, own, name)
        else:
            address = own_address_towards(self.hosts[nodes[0]].name)
        self._listen(listener := _listening_socket(address))
        # Those of loopback last: they serve agents on this host alone.
        known = [one.address for one in sorted(own, key=lambda one: one.is_loopback)]
        self._ends = [str(listener.getsockname()[1]), *([address] if address else known)]
        for group in [nodes] if self._allocation.is_one_step else [[node] for node in nodes]:
            self._start_group(group)

    def _start_group(self, nodes: Sequence[int]) -> None:
        if len(nodes) == 1:
            self._alone.add(nodes[0])
        names = [self.hosts[node].name for node in nodes]
        if self._allocation.is_one_step:
            words = srun_words(names, self._allocation.gpus_per_host)
            command = [*words, sys.executable, "-m", AGENT, "", *self._ends]
            environment = step_environment(os.environ, self.secret)
            self._children.start_apart(nodes, command, environment)
        else:
            words = [*self._allocation.command, *names, *_agent_words(os.environ)]
            self._children.start_apart(nodes, [*words, *names, *self._ends], os.environ)

    def _lose_unseen(self, node: int, why: str) -> None:
        # One node that is down keeps SLURM from starting a step on all.
        if node in self._alone or node in self._come or self._listener is None:
            super()._lose_unseen(node, why)
        else:
            self._start_group([node])

    def _hello(self) -> dict[str, Any]:
        if self._allocation.is_one_step:  # srun has brought the rest
            return {**super()._hello(), "defaults": left_out_of_step(os.environ)}
        return {**super()._hello(), "environment": carried_environment(os.environ)}

    def _node_of(self, frame: Frame) -> int:
        return self._nodes.get(frame.fields["host"], -1)

    def _why_not(self, node: int, frame: Frame) -> str:
        name = frame.fields["host"]
        if node < 0 or node == self.here:
            return f"{name} is not a host of the job that needs an agent"
        if node in self._come:
            return f"{name} has two agents"
        return version_difference("it", frame.fields["version"], "the launcher")


def _listening_socket(address: str) -> socket.socket:
    """Listen at an address of this host, or at all of them."""
    is_v6 = ":" in address if address else socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    return socket.create_server(
        (address, 0), family=family, backlog=1024, dualstack_ipv6=is_v6 and not address
    )


def srun_words(names: Sequence[str], gpus_per_host: int | None) -> list[str]:
    """Return the command that starts one process on each of some nodes of a SLURM job. Pure."""
    # Beside steps that run already, with all cores of the job; a node that fails ends no others.
    # Each number is said, since SLURM would take those of the job's tasks. Python would import the
    # user's own modules from the folder in which it is started.
    count = len(names)
    gpus = [] if gpus_per_host is None else [f"--gpus-per-node={gpus_per_host}"]
    return [
        *("srun", "--overlap", "--export=ALL", f"--nodelist={','.join(names)}"),
        *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", *gpus),
        *("--cpu-bind=none", "--mpi=none", "--chdir=/"),
        *("--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--quiet"),
    ]


def _is_left_out(name: str) -> bool:
    is_of_slurm = name.startswith(_OF_SLURM) and name not in _FOR_SRUN
    return is_of_slurm or name in _DEVICES or name in _NAMES_OF_HOST


def step_environment(environment: Mapping[str, str], secret: str) -> dict[str, str]:
    """Return the variables of srun, which all agents get. Pure."""
    kept = {name: text for name, text in environment.items() if not _is_left_out(name)}
    path = search_path(environment)
    return {**kept, **({"PYTHONPATH": path} if path else {}), JOB_SECRET.name: secret}


def left_out_of_step(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that agents get where SLURM gives them no others. Pure."""
    # The devices of this host are not those of others, if SLURM has chosen them.
    hidden = (*_NAMES_OF_HOST, *(_DEVICES if "SLURM_GPUS_ON_NODE" in environment else ()))
    return {n: text for n, text in environment.items() if _is_left_out(n) and n not in hidden}


def _agent_words(environment: Mapping[str, str]) -> list[str]:
    """Return the command of an agent that no shell reads, in a folder without modules."""
    path = search_path(environment)
    variables = [f"PYTHONPATH={path}"] if path else []
    return ["/usr/bin/env", "--chdir=/", *variables, sys.executable, "-m", AGENT]
