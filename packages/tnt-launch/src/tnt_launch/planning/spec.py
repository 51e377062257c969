"""What the user asked for on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.planning.allocation import Allocation
from tnt_launch.planning.hosts import MAX_RANKS_PER_NODE, HostSlots
from tnt_launch.planning.variables import JOB_VARIABLES, USER_VARIABLES

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
class Rendezvous:
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
    num_ranks: int | None = None  # of all hosts together
    num_hosts: int | None = None  # of those that are named or allocated, the first ones
    allow_gpus: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)  # values by names of variables
    exports: tuple[tuple[str, str], ...] = ()  # a later one replaces an earlier one
    hosts: tuple[HostSlots, ...] = ()  # each once; empty for this host alone
    bind_to: str | None = None
    pin_to_socket: bool = False
    pin_memory_to_socket: bool = False
    report_bindings: bool = False
    remarks: tuple[str, ...] = ()  # what a DEBUG message may tell about the options
    notes: tuple[str, ...] = ()  # what an INFO message tells
    warnings: tuple[str, ...] = ()
    allocation: Allocation | None = None  # whose command starts the agents on its hosts
    ssh: tuple[str, ...] = SSH
    rendezvous: Rendezvous | None = None
    output_dir: str | None = None
    max_restarts: int = 0
    min_ranks: int | None = None
    requeue: bool = False
    restart_count: int = 0  # how often this launcher has started the ranks again
    lane_threads: int | None = None  # before a restart, which may be on other hosts

    def restarted(self, count: int, lane_threads: int | None) -> LaunchSpec:
        """Return what is asked for after so many restarts. Pure."""
        return replace(self, restart_count=count, lane_threads=lane_threads)

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
        _check_settings(self.settings)
        if self.output_dir == "":
            raise LaunchError("--output-dir needs the path of a folder. Received: ''.")
        for name, value in self.exports:
            _check_export(name, value)
        _check_binding(self)
        _check_restarts(self)
        if self.hosts and self.rendezvous is not None:
            raise LaunchError(
                "--hostfile and -H start the ranks of all hosts from here, --nnodes needs a "
                "launcher on each host. Give one of them."
            )


def _check_settings(settings: Mapping[str, Any]) -> None:
    for variable in USER_VARIABLES:
        if variable.name in settings:
            try:
                variable.read(variable.kind.write(settings[variable.name]))
            except ValueError as error:
                raise LaunchError(str(error)) from None


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
            f"{name} cannot be set (-x, --env-file): the launcher sets it in every rank."
        )
    if "\0" in value:
        raise LaunchError(f"the value of {name} has a zero byte, which no variable can hold.")


def _check_restarts(spec: LaunchSpec) -> None:
    if spec.max_restarts < 0:
        raise LaunchError(f"--max-restarts must be at least 0. Received: {spec.max_restarts}.")
    if spec.max_restarts and spec.rendezvous is not None:
        raise LaunchError(
            "--max-restarts needs a launcher that starts the ranks of all hosts (-H, --hostfile); "
            "with --nnodes each host has its own, which ends with the job."
        )
    if spec.min_ranks is None:
        return
    if spec.min_ranks < 1:
        raise LaunchError(f"--min-ranks must be at least 1. Received: {spec.min_ranks}.")
    if spec.max_restarts == 0:
        raise LaunchError("--min-ranks applies after a restart: it needs --max-restarts")


def _check_binding(spec: LaunchSpec) -> None:
    if spec.bind_to is None:
        return
    if spec.bind_to not in BINDINGS:
        raise LaunchError(f"--bind-to must be one of {', '.join(BINDINGS)}.")
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


def working_folder() -> str:
    """Return the absolute path of the folder of this process."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise LaunchError(
            "the folder in which this command was given has been deleted. Change to another one: "
            "cd FOLDER."
        ) from error


def find_temporary_folder() -> str:
    """Return the absolute path of a folder that can be written into. Local."""
    import tempfile  # not needed by `--help`

    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise LaunchError(
            f"there is no folder for temporary files ({error.strerror}): set TMPDIR to one that "
            "exists, can be written into and is not full."
        ) from error
