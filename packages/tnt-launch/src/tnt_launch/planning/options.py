"""The options of the command line, and how each is read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from tnt_launch.errors import LaunchError
from tnt_launch.planning.grammar import Boolean, Kind, Variable, Word
from tnt_launch.planning.spec import BINDINGS
from tnt_launch.planning.variables import INTERFACE, LANES, OPTIONS, RENDEZVOUS, USER_VARIABLES

_USAGE = "tarantella [options] [--] SCRIPT [arguments of the script]"

_EPILOG = """\
examples:
  tarantella -n 4 -- train.py --batch-size 64       four ranks on this host
  tarantella -n 2 train.py                          -- is needed only before dash options
  tarantella -n 4 -x SEED=7 "NAME=a b" -- train.py  variables for all ranks
  tarantella -n 2 --dry-run -- train.py             show the processes, run nothing
  python train.py                                   the same script as one rank
  tarantella doctor -H node01,node02                check hosts and the network between them
  tarantella measure -H node01,node02 -n 4          measure what communication costs there
  tarantella verify -n 1,2,4 --lanes 4 -- train.py  are the bits the same on 1, 2 and 4 ranks?

The exit code is that of the rank that failed first (128 + N for signal N), 130 after Ctrl-C,
2 if the job could not be started, 75 if a scheduler's signal ended a training that can continue.
"""


_T = TypeVar("_T")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the launcher: one line, exit code 2."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(add_help=False, allow_abbrev=False, **settings)
        text = "show this help message and exit"
        self.add_argument("-h", "--help", action="store_true", help=text)

    def error(self, message: str) -> NoReturn:
        """Raise a LaunchError instead of printing the usage."""
        raise LaunchError(f"{message}. See {self.prog} --help.")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options, or show the help and end the program."""
        # Not as soon as -h is read: Python 3.13 takes the h of -hostfile for it.
        options = self.parse_args(arguments)
        self._help_if_asked(options)
        return options

    def parse_known(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Return the options that are known here, and the other arguments in their order."""
        options, others = self.parse_known_args(arguments)
        self._help_if_asked(options)
        return options, others

    def _help_if_asked(self, options: argparse.Namespace) -> None:
        if options.help:
            self.print_help()
            self.exit()


def make_parser() -> Parser:
    """Build the parser of all options; the script and its arguments stay in `program`. Pure."""
    parser = Parser(
        prog="tarantella",
        usage=_USAGE,
        description="Train a Keras model on several ranks at once: start SCRIPT as N processes, "
        "watch them, end them together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    titles = [*_GROUPS, *(option.group for option in OPTIONS.values())]
    for title in dict.fromkeys(titles):  # variables may have groups of their own
        group = parser.add_argument_group(title)
        add_others = _GROUPS.get(title)
        if add_others is not None:
            add_others(group)
        _add_variables(group)
    return parser


def make_doctor_parser() -> Parser:
    """Build the parser of the options of `tarantella doctor`. Pure."""
    parser = Parser(
        prog="tarantella doctor",
        description="Check this host, or the hosts of a job and the network between them: a line "
        "for each check, and what to do about each problem. The exit code is 1 if "
        "there is a problem.",
    )
    _add_number_of_ranks(
        parser, "ranks that a job will have on each host; the checks use as many (default: 2)"
    )
    _add_named_hosts(parser)
    _add_variable(parser, INTERFACE)
    return parser


def make_measure_parser() -> Parser:
    """Build the parser of what `tarantella measure` has besides the options of a job. Pure."""
    parser = Parser(
        prog="tarantella measure",
        usage="tarantella measure [options of a job] [--output FILE]",
        description="Measure on the ranks of a job what messages, bytes, copies and sums cost, "
        "between hosts and on a host, and print it as the file of a machine that "
        "benchmarks/simulate reads. Name hosts and ranks as for a training: see tarantella --help.",
    )
    text = "write there instead of printing"
    parser.add_argument("--output", metavar="FILE", help=text)
    return parser


def make_verify_parser() -> Parser:
    """Build the parser of what `tarantella verify` has besides the options of a job. Pure."""
    parser = Parser(
        prog="tarantella verify",
        usage="tarantella verify -n N,N,... [options] [options of a job] -- SCRIPT [arguments]",
        description="Run SCRIPT on one number of ranks after the other, in this folder, and "
        "compare every weight and every result of every step bit by bit; where they differ, say "
        "since when and why. The exit code is 0 if all are identical, 1 if they differ, and that "
        "of a run that fails. Name hosts as for a training: see tarantella --help.",
    )
    text = "numbers of ranks on each host, such as 1,2,4; the script runs twice on the smallest"
    parser.add_argument("-n", dest="numbers", metavar="N,N,...", type=_numbers, help=text)
    _add_variable(parser, LANES)
    text = (
        "compare losses, metrics and sizes of weights with those of the serial run instead, up to "
        "rounding, which is measured by a second serial run"
    )
    parser.add_argument("--within", **_one_of(("serial",)), help=text)
    text = "keep hashes and output of all runs in DIR"
    parser.add_argument("--keep", metavar="DIR", help=text)
    text = "print the commands, run nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    return parser


def _add_rank_options(group: argparse._ArgumentGroup) -> None:
    _add_number_of_ranks(group)
    text = "total number of ranks, divided evenly among the hosts"
    group.add_argument("-np", dest="num_ranks", metavar="N", type=_number, help=text)
    # Names of horovodrun and accelerate.
    names = ("--np", "--num-proc", "--num-processes", "--num_processes")
    group.add_argument(*names, dest="num_ranks", type=_number, help=argparse.SUPPRESS)
    text = "never use GPUs"
    group.add_argument("--no-gpu", "--no-gpus", dest="allow_gpus", action="store_false", help=text)


def _add_number_of_ranks(
    group: argparse._ActionsContainer,
    text: str = "ranks on each host (default: one per GPU, or one rank without a GPU)",
) -> None:
    """Add the option -n and its other names, for `read_number_of_ranks`."""
    group.add_argument(
        "-n",
        "--n-per-node",
        "--devices-per-node",
        "--npernode",
        dest="ranks_per_node",
        metavar="N",
        type=_number,
        action="append",
        help=text,
    )
    # Torchrun's name, written in both ways there.
    group.add_argument(
        "--nproc-per-node",
        "--nproc_per_node",
        dest="ranks_per_node",
        type=_number_of_torchrun,
        action="append",
        help=argparse.SUPPRESS,
    )


def _add_host_options(group: argparse._ArgumentGroup) -> None:
    _add_named_hosts(group)
    text = "use only the first N of the hosts that are named, or that a scheduler has allocated"
    group.add_argument("-N", dest="num_hosts", metavar="N", type=_number, help=text)
    text = "number of hosts; tarantella is started by hand on each, without ssh"
    group.add_argument("--nnodes", dest="num_nodes", metavar="N", type=_number, help=text)
    text = "with --nnodes: number of this host, from 0; node 0 shows the output"
    group.add_argument("--node-rank", metavar="K", type=_number, help=text)
    text = "with --nnodes: where node 0 listens for the others, the same on all hosts"
    group.add_argument(
        "--rendezvous", metavar="HOST:PORT", type=_reader(RENDEZVOUS.kind), help=text
    )


def _add_named_hosts(group: argparse._ActionsContainer) -> None:
    """Add the options that say which hosts there are, and how they are reached."""
    text = (
        "file with a host on each line, with slots=N or :N for at most N ranks (default: those "
        "that a scheduler has allocated, or this host)"
    )
    group.add_argument("--hostfile", metavar="PATH", help=text)
    text = "hosts instead of a file; may be repeated"
    group.add_argument(
        "-H", "--host", dest="host_lists", metavar="a:2,b:2", action="append", default=[], help=text
    )
    text = "command that runs a command on a host, may contain options (default: ssh)"
    group.add_argument("--ssh", metavar="COMMAND", help=text)


def _add_binding_options(group: argparse._ArgumentGroup) -> None:
    text = (
        "keep each rank on its own cores, or on those of a NUMA node or socket (default: numa for "
        "CPU ranks that divide evenly among several nodes, otherwise none)"
    )
    group.add_argument("--bind-to", **_one_of(BINDINGS), help=text)
    text = "keep each rank on the cores of its own NUMA node, with numactl"
    group.add_argument("--pin-to-socket", action="store_true", help=text)
    text = "give each rank only the memory of that node, with numactl"
    group.add_argument("--pin-memory-to-socket", action="store_true", help=text)
    text = "show a line for each rank: host, cores, threads, GPU"
    group.add_argument("--report-bindings", action="store_true", help=text)


def _add_variables(group: argparse._ArgumentGroup) -> None:
    """Add the options of a group that the table of variables has."""
    for variable in USER_VARIABLES:
        if variable.name in OPTIONS and OPTIONS[variable.name].group == group.title:
            _add_variable(group, variable)


def _add_variable(group: argparse._ActionsContainer, variable: Variable[Any, Any]) -> None:
    option, kind = OPTIONS[variable.name], variable.kind
    how: dict[str, Any] = {"type": _reader(kind), "metavar": option.metavar}
    if isinstance(kind, Boolean):
        how = {"action": "store_true", "default": None}
    elif isinstance(kind, Word):
        how = _one_of(kind.words)
    group.add_argument(option.name, dest=variable.name, help=option.help, **how)


def _add_output_folder(group: argparse._ArgumentGroup) -> None:
    text = (
        "also write all output of every rank to files in DIR: rank-0.stdout.log, "
        "rank-0.stderr.log and so on"
    )
    group.add_argument("--output-dir", metavar="DIR", help=text)


def _add_environment_options(group: argparse._ArgumentGroup) -> None:
    text = (
        "set variables in every rank, exactly as given; NAME alone copies the variable of "
        "this process; may be repeated"
    )
    group.add_argument(
        "-x", dest="exports", metavar="KEY=VALUE", nargs="+", action="append", default=[], help=text
    )
    text = "file with KEY=VALUE or NAME on each line, read as docker does; -x wins; may be repeated"
    group.add_argument(
        "--env-file", dest="env_files", metavar="PATH", action="append", default=[], help=text
    )
    text = (
        "command that runs SCRIPT, may contain options; empty: SCRIPT is the program itself "
        "(default: the Python of tarantella)"
    )
    group.add_argument("--python-interpreter", metavar="COMMAND", help=text)


def _add_restart_options(group: argparse._ArgumentGroup) -> None:
    text = "after a failure start all ranks again, at most K times (default: 0)"
    group.add_argument("--max-restarts", metavar="K", type=_number, default=0, help=text)
    text = (
        "with --max-restarts: continue without hosts that no longer answer, as long as M ranks "
        "are left (default: all)"
    )
    group.add_argument("--min-ranks", metavar="M", type=_number, help=text)
    text = (
        "if the scheduler (SLURM, Grid Engine, PBS) ends the job before it is done, ask it to run "
        "the job again"
    )
    group.add_argument("--requeue", action="store_true", help=text)


def _add_other_options(group: argparse._ArgumentGroup) -> None:
    text = "print the processes as shell commands, run nothing"
    group.add_argument("--dry-run", action="store_true", help=text)
    text = (
        "run nothing, but end what is left on this host of your jobs whose launchers are gone "
        "(with SCRIPT: only of its jobs; with --dry-run: only show it)"
    )
    group.add_argument("--cleanup", action="store_true", help=text)
    text = "with --cleanup: kill at once, without asking"
    group.add_argument("--force", action="store_true", help=text)
    group.add_argument("--version", action="store_true", help="print version, path and licence")


# What adds the options that set no variable, by the titles under which `--help` shows them.
_GROUPS: dict[str, Callable[[argparse._ArgumentGroup], None] | None] = {
    "ranks and devices": _add_rank_options,
    "hosts": _add_host_options,
    "cores of the ranks": _add_binding_options,
    "messages and output": _add_output_folder,
    "environment of the ranks": _add_environment_options,
    "communication": None,
    "exactness": None,
    "signals and restarts": _add_restart_options,
    "other": _add_other_options,
}


def _one_of(words: tuple[str, ...]) -> dict[str, Any]:
    return {"metavar": "{" + ",".join(words) + "}", "type": _reader(Word(words))}


def _reader(kind: Kind[_T]) -> Callable[[str], _T]:
    """Return the function by which argparse reads values of a kind."""

    def read(text: str) -> _T:
        try:
            return kind.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}. Received: {text!r}") from None

    return read


def _number_of_torchrun(text: str) -> int:
    if text in ("auto", "gpu", "cpu"):
        raise argparse.ArgumentTypeError(
            "leave it out: without a number there is one rank for each GPU, or one rank without a "
            f"GPU. To use more CPUs give a number, with --no-gpu. Received: {text!r}"
        )
    return _number(text)


def _numbers(text: str) -> tuple[int, ...]:
    """Read numbers such as 1,2,4, each once, in their order."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("0*[1-9][0-9]{0,8}", word) for word in words):
        raise argparse.ArgumentTypeError(
            f"it must be numbers of at least 1 with commas between them. Received: {text!r}"
        )
    return tuple(dict.fromkeys(map(int, words)))


def _number(text: str) -> int:
    if not re.fullmatch("-?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"it must be an integer. Received: {text!r}")
    return int(text)
