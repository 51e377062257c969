"""From the words of a command line, and the files that they name, to the `LaunchSpec` meant."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.planning.hosts import (
    HostSlots,
    merge_hosts,
    parse_host_list,
    read_hostfile,
    read_user_file,
)
from tnt_launch.planning.options import Parser, make_measure_parser
from tnt_launch.planning.other_words import advice_for_other_words, split_interpreter
from tnt_launch.planning.spec import SSH, LaunchSpec, Rendezvous
from tnt_launch.planning.variables import ALL_NAMES

# First words that are not scripts; a script of that name is written as `./doctor` or behind --.
SUBCOMMANDS = ("doctor", "measure", "verify")

MEASURE = "tarantella.measure"

_FIELDS = {field.name for field in dataclasses.fields(LaunchSpec)}


def parse_export(item: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Read one item of `-x`: `KEY=VALUE`, or `NAME` to copy a variable. Pure."""
    name, equals, value = item.partition("=")
    if equals:
        return name, value
    if name not in environment:
        raise LaunchError(
            "-x needs KEY=VALUE, or the NAME of a variable that is set here; separate several by "
            f"spaces, and quote values that contain spaces. Received: {item!r}. If that is the "
            "script, write -- before it."
        )
    return name, environment[name]


def read_env_file(path: str, environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Read a file of variables; see `parse_env_file`. Local."""
    text = read_user_file(path, f"--env-file {path!r}", newline="")
    return tuple(parse_env_file(text, path, environment))


def parse_env_file(
    text: str, path: str, environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Read lines of `KEY=VALUE` exactly as docker reads an `--env-file`. Pure."""
    # Quotes belong to the value, and so do blanks behind it and `#`. Empty lines and lines that
    # begin with `#` say nothing. A `NAME` alone copies the launcher's variable if it is set.
    for number, line in enumerate(text.split("\n"), start=1):
        entry = line.removesuffix("\r").lstrip()
        if not entry or entry.startswith("#"):
            continue
        name, equals, value = entry.partition("=")
        if not name or len(name.split()) != 1 or name != name.strip():
            raise LaunchError(
                f"line {number} of --env-file {path!r} is malformed: it needs KEY=VALUE, without "
                f"blanks around KEY. Received: {entry!r}."
            )
        if equals:
            yield name, value
        elif name in environment:
            yield name, environment[name]


def parse_arguments(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """Parse options up to the script; everything behind `--` is left alone. Pure."""
    # `subcommand` becomes one of `SUBCOMMANDS`, with its arguments in `program`, or empty.
    has_separator = "--" in arguments
    position = arguments.index("--") if has_separator else len(arguments)
    try:
        options = parser.parse(arguments[:position])
    except LaunchError as error:
        told = advice_for_other_words(arguments[:position])
        raise LaunchError(f"{told} See {parser.prog} --help.") if told else error from None
    options.subcommand = ""
    if options.program and options.program[0] in SUBCOMMANDS:
        options.subcommand = options.program[0]
        options.program = [*options.program[1:], *arguments[position:]]
        return options
    if has_separator and options.program:
        parser.error(f"the script belongs after --, but {options.program[0]!r} comes before it")
    if not has_separator:
        dashed = [word for word in options.program[1:] if word.startswith("-") and word != "-"]
        if dashed:
            parser.error(
                f"{dashed[0]!r} comes after the script. If it belongs to the script, write -- "
                f"before the script: tarantella [options] -- {shlex.join(options.program)}"
            )
    options.program += arguments[position + 1 :]
    if options.force and not options.cleanup:
        parser.error("--force needs --cleanup")
    if not options.program and not options.version and not options.cleanup:
        parser.error("no script given")
    return options


def arguments_of_measure(arguments: Sequence[str]) -> list[str]:
    """Return the command line that starts what `tarantella measure` runs on each rank. Pure."""
    parser = make_measure_parser()
    options, others = parser.parse_known(arguments)
    if "--" in others:
        parser.error("it takes no script, and no --")
    output = [] if options.output is None else ["--output", options.output]
    return [*others, "--", "-m", MEASURE, *output]


def make_spec(options: argparse.Namespace, environment: Mapping[str, str]) -> LaunchSpec:
    """Turn parsed options into a spec; reads the files that they name. Local."""
    hosts, remarks = merge_hosts(_hosts(options.hostfile, options.host_lists))
    values: dict[str, Any] = {n: value for n, value in vars(options).items() if n in _FIELDS}
    interpreter, program = _interpreter_and_program(options)
    values |= {
        "program": program,
        "interpreter": interpreter,
        "ranks_per_node": read_number_of_ranks(options.ranks_per_node),
        "settings": settings_of(options),
        "exports": tuple(
            [entry for path in options.env_files for entry in read_env_file(path, environment)]
            + [parse_export(item, environment) for items in options.exports for item in items]
        ),
        "num_hosts": 1 if _is_one_node(options) else options.num_hosts,
        "hosts": hosts,
        "ssh": _ssh(options),
        "rendezvous": _rendezvous(options),
        "remarks": remarks,
    }
    return LaunchSpec(**values)


def _interpreter_and_program(
    options: argparse.Namespace,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if options.python_interpreter is not None:
        given = _command("--python-interpreter", options.python_interpreter)
        return given, tuple(options.program)
    written, program = split_interpreter(options.program)
    return written or (sys.executable,), program


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the variables that options set, by their names. Pure."""
    values = vars(options)
    return {name: values[name] for name in ALL_NAMES if values.get(name) is not None}


def read_number_of_ranks(given: list[int] | None) -> int | None:
    """Return the number of ranks on each host from all options -n, `None` without one. Pure."""
    counts = set(given or [])
    if len(counts) > 1:
        raise LaunchError(
            f"-n, --n-per-node, --devices-per-node and --npernode mean the same. Give one of them. "
            f"Received: {sorted(counts)}."
        )
    return counts.pop() if counts else None


def hosts_of(options: argparse.Namespace) -> tuple[tuple[HostSlots, ...], tuple[str, ...]]:
    """Return the hosts that options name, and the command that reaches them. Local."""
    hosts, _ = merge_hosts(_hosts(options.hostfile, options.host_lists))
    return hosts, _ssh(options)


def _ssh(options: argparse.Namespace) -> tuple[str, ...]:
    ssh = SSH if options.ssh is None else _command("--ssh", options.ssh)
    if not ssh:
        raise LaunchError(f"--ssh names no command. Received: {options.ssh!r}.")
    return ssh


def _hosts(hostfile: str | None, host_lists: list[str]) -> list[HostSlots]:
    if hostfile is not None and host_lists:
        raise LaunchError("--hostfile and -H both name the hosts. Give one of them.")
    if hostfile is not None:
        return list(read_hostfile(hostfile))
    return [host for text in host_lists for host in parse_host_list(text)]


def _is_one_node(options: argparse.Namespace) -> bool:
    """Whether `--nnodes 1` needs no rendezvous, as torchrun needs none on one host."""
    is_first = options.num_nodes == 1 and options.node_rank in (None, 0)
    return is_first and options.rendezvous is None and options.num_hosts in (None, 1)


def _rendezvous(options: argparse.Namespace) -> Rendezvous | None:
    given = (options.num_nodes, options.node_rank, options.rendezvous)
    if given == (None, None, None) or _is_one_node(options):
        return None
    if None in given:
        raise LaunchError(
            "--nnodes, --node-rank and --rendezvous must be given together, such as --nnodes 2 "
            "--node-rank 0 --rendezvous alpha:29400."
        )
    host, _, port = options.rendezvous.rpartition(":")
    return Rendezvous(options.num_nodes, options.node_rank, host.strip("[]"), int(port))


def _command(option: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise LaunchError(f"{option} is not a command: {error}. Received: {text!r}.") from None
