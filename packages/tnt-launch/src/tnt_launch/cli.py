"""The command `tarantella`: parse the arguments, plan the job, run it or print the plan."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tnt_launch.errors import LaunchError
from tnt_launch.planning.command_line import (
    arguments_of_measure,
    hosts_of,
    make_spec,
    parse_arguments,
)
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.scheduler_job import forget_other_job, in_scheduler_job, read_file
from tnt_launch.planning.spec import LaunchSpec

if TYPE_CHECKING:
    from tnt_launch.planning.plan import LaunchPlan

EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of this process, and return the exit code."""
    _open_standard_descriptors()
    forget_other_job(os.environ, _step_of_slurm())
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:  # None where descriptor 1 was closed
                sys.stdout.flush()  # later its error could only be shown
    except KeyboardInterrupt:  # before the ranks started; later the job deals with signals
        return 128 + signal.SIGINT
    except BrokenPipeError:  # who reads what we print, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except LaunchError as error:
        sys.stderr.write(f"tarantella: error: {error}\n")
        return EXIT_USAGE


def _run(arguments: list[str]) -> int:
    options = parse_arguments(make_parser(), arguments)
    if options.version:
        sys.stdout.write(version_text())
        return 0
    if options.cleanup:
        return _clean_up(options)
    if options.subcommand:
        in_front = arguments[: -len(options.program) - 1]
        return _run_subcommand(options.subcommand, [*in_front, *options.program])
    return _launch(make_spec(options, os.environ), options.dry_run)


def _open_standard_descriptors() -> None:
    """Open 0, 1 and 2 if closed, or the next pipe would get such a number and our output."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _step_of_slurm() -> str:
    if "SLURM_STEP_ID" not in os.environ:
        return ""
    from tnt_launch.running.processes import step_of_slurm

    return step_of_slurm()


def _run_subcommand(name: str, arguments: Sequence[str]) -> int:
    """Run what a first word of `SUBCOMMANDS` names, and return the exit code."""
    if name == "doctor":
        from tnt_launch.doctor.command import run_doctor

        return run_doctor(arguments)
    if name == "measure":
        options = parse_arguments(make_parser(), arguments_of_measure(arguments))
        return _launch(make_spec(options, os.environ), options.dry_run)
    from tnt_launch.verify.command import run_verify

    return run_verify(arguments)


def _launch(spec: LaunchSpec, is_dry_run: bool) -> int:
    # Imported here: `--help` and a wrong command line need none of this.
    spec = in_scheduler_job(spec, os.environ, read_file)
    if spec.hosts or spec.rendezvous is not None:
        from tnt_launch.hosts.launch import launch_on_hosts, plan_without_asking

        return _show(plan_without_asking(spec)) if is_dry_run else launch_on_hosts(spec)
    from tnt_launch.planning.plan import plan_on_this_host

    if is_dry_run:
        return _show(plan_on_this_host(spec))
    import contextlib

    from tnt_launch.running.restarts import Start, run_to_the_end

    return run_to_the_end(spec, lambda spec: contextlib.nullcontext(Start(plan_on_this_host(spec))))


def _show(plan: LaunchPlan) -> int:
    from tnt_launch.planning.plan_text import render_plan

    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(render_plan(plan)))
    return 0


def _clean_up(options: argparse.Namespace) -> int:
    from tnt_launch.running.cleanup import clean_up

    script = None
    if options.program:
        spec = make_spec(options, os.environ)
        script, hosts, ssh = spec.script, spec.hosts, spec.ssh
    else:
        hosts, ssh = hosts_of(options)
    if not hosts:
        return clean_up(script, is_forced=options.force, is_dry_run=options.dry_run)
    from tnt_launch.hosts.ssh import clean_up_hosts

    flags = [("--force", options.force), ("--dry-run", options.dry_run)]
    arguments = ["--cleanup", *(flag for flag, is_given in flags if is_given)]
    arguments += ["--", os.path.abspath(script)] if script is not None else []
    return clean_up_hosts(hosts, ssh, arguments)


def version_text() -> str:
    """Return three lines: name and version, path of this package, licence."""
    from tnt_launch.planning.host_facts import own_version

    version = own_version() or "(not installed)"
    path = os.path.dirname(os.path.abspath(__file__))
    return f"tarantella {version}\n{path}\nApache-2.0, copyright the Tarantella authors\n"
