"""Measure the allreduce of several libraries, and the limits of this machine; see README.md."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.allreduce.across_hosts import libraries_across
from benchmarks.allreduce.goals import GOALS, GOALS_ACROSS_HOSTS, Goal, judge
from benchmarks.allreduce.libraries import LIBRARIES, LIMIT, OURS, OVER_GPI2, LibrarySpec
from benchmarks.allreduce.library_ranks import LibraryRanks
from benchmarks.allreduce.memory import shortage_of
from benchmarks.allreduce.rounds import Budget, measure_workload
from benchmarks.allreduce.summary import make_rows
from benchmarks.allreduce.table import HEADER, lines_of
from benchmarks.allreduce.workload import DEFAULT, Workload, make_workload
from benchmarks.jobs import end_on_sigterm
from benchmarks.linked_hosts import UNLIMITED, LinkUnavailable, linked_hosts
from benchmarks.peers import PEERS_FOLDER
from benchmarks.process_set import ProcessesFailed
from benchmarks.records import Row, make_header, write_rows


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    names = [*(spec.name for spec in LIBRARIES if spec.name != OURS), OVER_GPI2]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allreduce", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument(
        "--workloads", type=make_workload, nargs="+", default=DEFAULT, metavar="NAME",
        help="sizes such as 4MiB, sets of gradients such as resnet50",
    )  # fmt: skip
    parser.add_argument(
        "--peers", nargs="*", choices=names, default=names, metavar="NAME",
        help=f"libraries besides ours, by default all that are installed: {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument(
        "--link", metavar="RATE",
        help="each of two ranks on a host of its own (a network namespace), with a link of this "
             f"rate between them, as `tc` writes it, or `{UNLIMITED}`",
    )  # fmt: skip
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="only these of our library")
    parser.add_argument("--seconds", type=float, default=15, help="for each workload, about")
    parser.add_argument("--rounds", type=int, default=8, help="wanted; two at least are made")
    parser.add_argument("--peers-folder", type=Path, default=PEERS_FOLDER, metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def installed(
    libraries: Sequence[LibrarySpec], names: Sequence[str], peers_folder: Path
) -> list[LibrarySpec]:
    """Our library and the wanted peers; says which are not there."""
    specs = [spec for spec in libraries if spec.name in (OURS, *names)]
    found = [spec for spec in specs if spec.python(peers_folder).exists()]
    for spec in specs:
        if spec not in found:
            print(f"{spec.name} is not installed in {peers_folder}: left out")
    return found


def measure_ranks(
    num_ranks: int, specs: Sequence[LibrarySpec], arguments: argparse.Namespace
) -> list[Row]:
    """Start everything on so many ranks, measure all workloads, end everything."""
    rows = []
    with contextlib.ExitStack() as stack:
        folder = arguments.peers_folder
        sets = [stack.enter_context(LibraryRanks(spec, num_ranks, folder)) for spec in specs]
        versions = {processes.spec.name: processes.versions for processes in sets}
        options = {"ranks": num_ranks, "seconds": arguments.seconds, "rounds": arguments.rounds}
        header = make_header("allreduce", versions, options)
        print("\n" + "\n".join(f"{name}: {value}" for name, value in header.items()))
        print(HEADER, flush=True)
        if arguments.json:
            write_rows(arguments.json, [header])
        for workload in arguments.workloads:
            if shortage := shortage_of(workload, num_ranks, len(sets)):
                print(shortage, flush=True)
                continue
            variants = [
                (processes, variant)
                for processes in sets
                for variant in processes.variants
                if is_measured(workload, variant)
                and is_wanted(processes.spec.name, variant, arguments.variants)
            ]
            budget = Budget(arguments.seconds, arguments.rounds)
            timings = measure_workload(variants, workload, budget)
            of_workload = make_rows(timings, workload, num_ranks)
            print("\n".join(lines_of(of_workload)), flush=True)
            if arguments.json:
                write_rows(arguments.json, of_workload)
            rows += of_workload
    return rows


def is_measured(workload: Workload, variant: str) -> bool:
    """One array is not put into buckets."""
    return workload.is_gradients or not variant.startswith(("25 MiB buckets", "GradientReducer"))


def is_wanted(library: str, variant: str, names: Sequence[str] | None) -> bool:
    """All of other libraries are, and the limits, once; of ours those that are named."""
    if variant.startswith(LIMIT):
        return library == OURS
    return library not in (OURS, OVER_GPI2) or not names or variant in names


def main() -> int:
    arguments = make_parser().parse_args()
    if arguments.workloads is DEFAULT:
        arguments.workloads = [make_workload(name) for name in DEFAULT]
    if arguments.json:
        arguments.json.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        libraries: Sequence[LibrarySpec] = LIBRARIES
        goals: Sequence[Goal] = GOALS
        if arguments.link:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            hosts = stack.enter_context(linked_hosts(2, arguments.link, folder))
            libraries, goals = libraries_across(hosts), GOALS_ACROSS_HOSTS
            arguments.ranks = [2]
        specs = installed(libraries, arguments.peers, arguments.peers_folder)
        rows = [row for ranks in arguments.ranks for row in measure_ranks(ranks, specs, arguments)]
    print()
    for line in judge(rows, goals):
        print(line)
    return 0


if __name__ == "__main__":
    end_on_sigterm()
    try:
        sys.exit(main())
    except LinkUnavailable as missing:
        sys.exit(f"The link between two hosts cannot be made here: {missing}")
    except ProcessesFailed as failure:
        sys.exit(str(failure))
