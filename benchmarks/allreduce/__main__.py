"""Measure all libraries and print one table: `python -m benchmarks.allreduce`; see README.md."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
from pathlib import Path

from benchmarks.allreduce.libraries import LIBRARIES, OURS, ROOT
from benchmarks.allreduce.process_set import LibraryFailed, ProcessSet
from benchmarks.allreduce.rounds import Budget, measure_workload
from benchmarks.allreduce.summary import make_rows
from benchmarks.allreduce.table import HEADER, lines_of
from benchmarks.allreduce.workload import DEFAULT, Workload, make_workload

PEERS_FOLDER = ROOT / ".nox/bench-peers"


def parse_arguments() -> argparse.Namespace:
    names = ", ".join(f"'{spec.name}'" for spec in LIBRARIES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.allreduce", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4], metavar="N")
    parser.add_argument("--workloads", type=make_workload, nargs="+", metavar="NAME",
                        default=[make_workload(name) for name in DEFAULT.split()],
                        help="sizes such as 4MiB, and resnet50, transformer_big")
    parser.add_argument("--libraries", nargs="+", metavar="NAME", help=f"some of {names}")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="only these of tnt")
    parser.add_argument("--seconds", type=float, default=15, help="for one workload, about")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--peers-folder", type=Path, default=PEERS_FOLDER, metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add one line per row to FILE")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    specs = [
        spec for spec in LIBRARIES
        if spec.name == OURS or not arguments.libraries or spec.name in arguments.libraries
    ]
    missing = [s.name for s in specs if not s.python(arguments.peers_folder).exists()]
    if missing:
        print(f"not installed in {arguments.peers_folder}: {', '.join(missing)}")
    specs = [spec for spec in specs if spec.name not in missing]
    budget = Budget(arguments.seconds, arguments.rounds)
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(arguments.json.open("a")) if arguments.json else None
        for num_ranks in arguments.ranks:
            with contextlib.ExitStack() as sets:
                processes = [
                    sets.enter_context(ProcessSet(spec, num_ranks, arguments.peers_folder))
                    for spec in specs
                ]
                versions = {p.spec.name: p.versions for p in processes}
                print(f"\n{num_ranks} ranks on {platform.node()}: {versions}\n{HEADER}", flush=True)
                for workload in arguments.workloads:
                    variants = [
                        (p, variant) for p in processes for variant in p.variants
                        if is_measured(workload, variant)
                        and (p.spec.name != OURS or not arguments.variants or variant in arguments.variants or variant.startswith("limit"))
                    ]
                    rows = make_rows(measure_workload(variants, workload, budget), workload, num_ranks)
                    print("\n".join(lines_of(rows)), flush=True)
                    if output:
                        output.writelines(json.dumps(row) + "\n" for row in rows)
                        output.flush()
    return 0


def is_measured(workload: Workload, variant: str) -> bool:
    """Buckets need several arrays."""
    return workload.is_gradients or "buckets" not in variant and variant != "GradientReducer"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LibraryFailed as failure:
        sys.exit(str(failure))
