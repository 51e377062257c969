"""Share of the communication of a training step that is hidden, on a slow link; see README.md."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import result_of_job
from benchmarks.jobs import JobFailed, Place, end_on_sigterm
from benchmarks.linked_hosts import UNLIMITED, Hosts, LinkUnavailable, linked_hosts
from benchmarks.overlap.summary import HEADER, judge, line_of, make_row
from benchmarks.records import Row, make_header, write_rows

OFF = "all"
# Everything in one bucket: its sum starts when the last gradient exists, so nothing is hidden.
THRESHOLDS_KB = {"0": "0", "32": "32", "auto": "auto", OFF: str(2**30)}
JOB_S = 600


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlap", description=__doc__)
    parser.add_argument(
        "--fusion", nargs="+", choices=THRESHOLDS_KB, default=list(THRESHOLDS_KB),
        help=f"thresholds in kB; `{OFF}`: one bucket, hence no overlap",
    )  # fmt: skip
    parser.add_argument("--transports", nargs="+", choices=["gpi2", "ucx", "shm"], default=["ucx"],
                        help="shm: both ranks on this host, no link between them")  # fmt: skip
    parser.add_argument(
        "--rate", default="1gbit", help=f"of the link, as `tc` writes it, or `{UNLIMITED}`"
    )
    parser.add_argument("--model", choices=["cnn", "tiny"], default="cnn")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each kind in each round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def places_of(hosts: Hosts | None) -> list[Place]:
    """One rank on each host; without hosts of their own, both on this one."""
    if hosts is None:
        return [Place(), Place()]
    job_id = secrets.token_hex(8)
    return [Place(hosts.prefix(rank), hosts.rank_variables(rank, job_id)) for rank in range(2)]


def measure(
    fusion: str, transport: str, hosts: Hosts | None, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run the two ranks with one fusion threshold. Returns what rank 0 writes."""
    numbers = (arguments.batch_size, arguments.rounds, arguments.steps)
    words = [THRESHOLDS_KB[fusion], arguments.model, *numbers]
    places, variables = (
        places_of(hosts if transport != "shm" else None),
        {"TNT_TRANSPORT": transport},
    )
    return result_of_job("benchmarks.overlap.rank", words, places, variables, JOB_S)


def measure_all(hosts: Hosts | None, arguments: argparse.Namespace) -> list[Row]:
    """All thresholds and transports, one job each; prints the table as it grows."""
    rows: list[Row] = []
    for fusion, transport in itertools.product(arguments.fusion, arguments.transports):
        measured = measure(fusion, transport, hosts, arguments)
        if not rows:
            options = {"rate": arguments.rate, "model": arguments.model}
            options |= {"batch_size": arguments.batch_size, "parameters": measured["parameters"]}
            header = make_header("overlap", measured["versions"], options)
            print("\n".join(f"{name}: {value}" for name, value in header.items()))
            print(HEADER)
            if arguments.json:
                write_rows(arguments.json, [header], is_new=True)
        rows.append(make_row(fusion, transport, measured["threshold_kb"], measured["rounds"]))
        print(line_of(rows[-1]), flush=True)
        if arguments.json:
            write_rows(arguments.json, rows[-1:])
    return rows


def main() -> int:
    arguments = make_parser().parse_args()
    with contextlib.ExitStack() as stack:
        hosts = None
        if arguments.transports != ["shm"]:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            hosts = stack.enter_context(linked_hosts(2, arguments.rate, folder))
        rows = measure_all(hosts, arguments)
    for line in filter(None, map(judge, rows)):
        print(line)
    return 0


if __name__ == "__main__":
    end_on_sigterm()
    try:
        sys.exit(main())
    except LinkUnavailable as missing:
        sys.exit(f"The link between two hosts cannot be made here: {missing}")
    except JobFailed as failure:
        sys.exit(str(failure))
