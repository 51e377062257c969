"""What the user asked for on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tnt_launch.errors import LaunchError
from tnt_launch.planning.hosts import MAX_RANKS_PER_NODE, HostSlots
from tnt_launch.planning.paths import working_folder
from tnt_launch.planning.variables import JOB_VARIABLES, LOG_LEVELS, PROBES, WIRE_DTYPES

SSH = (
    "ssh",
    "-T",  # no terminal: what comes back must be unchanged
    "-x",
    "-oBatchMode=yes",  # there is nobody who could answer a question
    "-oConnectTimeout=15",
    "-oClearAllForwardings=yes",
)  # the user's own ssh, with the settings of the user's `~/.ssh/config`

BINDINGS = ("core", "numa", "socket", "none")
_INTERPRETER_OPTIONS = ("-m", "-c")


@dataclass(frozen=True)
class Meeting:
    """Where the launchers of several hosts meet that were started by hand."""

    num_nodes: int
    node_rank: int  # of this host
    host: str  # of node 0, which listens at `port`
    port: int

    def __post_init__(self) -> None:
        if self.num_nodes < 1:
            raise LaunchError(f"--nnodes must be at least 1. Received: {self.num_nodes}.")
        if not 0 <= self.node_rank < self.num_nodes:
            raise LaunchError(
                f"--node-rank must be between 0 and {self.num_nodes - 1}, as --nnodes is "
                f"{self.num_nodes}. Received: {self.node_rank}."
            )


@dataclass(frozen=True)
class LaunchSpec:
    """A launch as asked for on the command line. `None` means: not given, others decide."""

    program: tuple[str, ...]  # the script and its arguments, exactly as they reach the ranks
    interpreter: tuple[str, ...] = ("python",)  # empty to run the program itself
    ranks_per_node: int | None = None
    allow_gpus: bool = True
    log_level: str | None = None
    log_on_all_devices: bool | None = None
    output_on_all_devices: bool | None = None
    exports: tuple[tuple[str, str], ...] = ()  # a later one replaces an earlier one
    fusion_threshold_kb: int | Literal["auto"] | None = None  # of 1024 bytes; 0 turns fusion off
    wire_dtype: str | None = None
    probe: str | None = None  # has no effect any more
    check_steps: bool | None = None
    explain_steps: bool | None = None
    timeout_s: float | None = None  # of a collective operation
    hosts: tuple[HostSlots, ...] = ()  # each once; empty for this host alone
    bind_to: str | None = None
    pin_to_socket: bool = False
    pin_memory_to_socket: bool = False
    report_bindings: bool = False
    remarks: tuple[str, ...] = ()  # what a DEBUG message may tell about the options
    ssh: tuple[str, ...] = SSH
    interface: str | None = None  # its name, its address or its network
    meeting: Meeting | None = None
    output_dir: str | None = None

    @property
    def script(self) -> str:
        """What runs on the ranks: the script, or the module of `-m`."""
        has_option = self.program[0] in _INTERPRETER_OPTIONS and len(self.program) > 1
        return self.program[1] if has_option else self.program[0]

    def __post_init__(self) -> None:
        # What can be checked without looking at the machine.
        if not self.program:
            raise LaunchError("no script given. Use: tarantella [options] -- SCRIPT [arguments]")
        if self.ranks_per_node is not None:
            _check_number_of_ranks(self.ranks_per_node)
        _check_word("--log-level", self.log_level, LOG_LEVELS)
        if isinstance(self.fusion_threshold_kb, int) and self.fusion_threshold_kb < 0:
            raise LaunchError(
                f"--fusion-threshold must be a number of kB of at least 0 (0 turns fusion off). "
                f"Received: {self.fusion_threshold_kb}."
            )
        _check_word("--wire-dtype", self.wire_dtype, WIRE_DTYPES)
        _check_word("--probe", self.probe, PROBES)
        if self.timeout_s is not None and not 0 < self.timeout_s < float("inf"):
            raise LaunchError(
                f"--timeout must be a number of seconds greater than 0. Received: {self.timeout_s}."
            )
        if self.output_dir == "":
            raise LaunchError("--output-dir needs the path of a folder. Received: ''.")
        for name, value in self.exports:
            _check_export(name, value)
        _check_binding(self)
        if self.hosts and self.meeting is not None:
            raise LaunchError(
                "--hostfile and -H start the ranks of all hosts from here, --nnodes needs a "
                "launcher on each host. Give one of them."
            )


def _check_word(option: str, word: str | None, choices: Sequence[str]) -> None:
    if word is not None and word not in choices:
        raise LaunchError(f"{option} must be one of {', '.join(choices)}.")


def _check_number_of_ranks(count: int) -> None:
    if not 1 <= count <= MAX_RANKS_PER_NODE:
        raise LaunchError(
            f"the number of ranks on a host must be between 1 and {MAX_RANKS_PER_NODE}. "
            f"Received: -n {count}."
        )


def _check_export(name: str, value: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise LaunchError(
            f"names of variables for the ranks (-x, --env-file) consist of letters, digits and "
            f"underscores. Received: {name!r}."
        )
    if name in JOB_VARIABLES:
        raise LaunchError(
            f"{name} cannot be set (-x, --env-file): the launcher gives it a value of its own in "
            f"every rank."
        )
    if "\0" in value:
        raise LaunchError(f"the value of {name} has a zero byte, which no variable can hold.")


def _check_binding(spec: LaunchSpec) -> None:
    if spec.bind_to is None:
        return
    _check_word("--bind-to", spec.bind_to, BINDINGS)
    if spec.pin_to_socket or spec.pin_memory_to_socket:
        raise LaunchError(
            "--bind-to and --pin-to-socket or --pin-memory-to-socket choose the cores of a rank in "
            "different ways. Give one of them."
        )


def check_program(spec: LaunchSpec) -> None:
    """Check that the interpreter and the script exist, on the file system."""
    import shutil  # not needed by `--help`

    script = spec.program[0]
    if spec.interpreter:
        if shutil.which(spec.interpreter[0]) is None:
            raise LaunchError(
                f"the interpreter {spec.interpreter[0]!r} is not an executable found in PATH. "
                f"Correct --python-interpreter (empty: run the program itself)."
            )
        if script in _INTERPRETER_OPTIONS:
            return
    if os.path.isdir(script):
        raise LaunchError(f"{script!r} is a directory. Name the script to run.")
    if spec.interpreter and not os.path.isfile(script):
        raise LaunchError(
            f"the script {script!r} does not exist in {working_folder()!r}. "
            f"Check the name and the current directory."
        )
    if not spec.interpreter and shutil.which(script) is None:
        raise LaunchError(
            f"the program {script!r} is not an executable file, as an empty --python-interpreter "
            f"requires. Write ./{os.path.basename(script)} for a file in the current directory and "
            f"make it executable (chmod +x)."
        )
