"""The options of `tarantella doctor`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tnt_launch.planning.options import hosts_of, read_number_of_ranks
from tnt_launch.planning.parser import Parser, add_host_options, add_number_of_ranks
from tnt_launch.planning.spec import LaunchSpec


def make_doctor_parser() -> Parser:
    """Build the parser of the options of `tarantella doctor`. Pure."""
    parser = Parser(
        prog="tarantella doctor",
        description="Check this host, or the hosts of a job and the network between them: a line "
        "for each check, and what to do about each problem. The exit code is 1 if there is one.",
        allow_abbrev=False,
    )
    add_number_of_ranks(
        parser, "ranks that a job is to have on each host; tests run with as many (default: 2)"
    )
    add_host_options(parser)
    return parser


def read_doctor_options(arguments: Sequence[str]) -> LaunchSpec:
    """Turn the arguments of `tarantella doctor` into a spec; reads the host file. Local."""
    options = make_doctor_parser().parse_args(list(arguments))
    hosts, ssh = hosts_of(options)
    return LaunchSpec(
        program=("-m", "tarantella.doctor.host"),
        interpreter=(sys.executable,),
        ranks_per_node=read_number_of_ranks(options.ranks_per_node),
        hosts=hosts,
        ssh=ssh,
        interface=options.interface,
    )
