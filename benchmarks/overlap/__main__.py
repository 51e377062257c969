"""Share of the communication of a training step that is hidden, on a slow link; see README.md."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import result_of_job
from benchmarks.jobs import JobFailed, Place, end_on_sigterm
from benchmarks.overlap.link import ADDRESSES, LinkUnavailable, limited_link
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
    parser.add_argument("--transport", choices=["gpi2", "shm"], default="gpi2",
                        help="shm: both ranks on this host, no link between them")  # fmt: skip
    parser.add_argument("--rate", default="1gbit", help="of the link, as `tc` writes it")
    parser.add_argument("--model", choices=["cnn", "tiny"], default="cnn")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each kind in each round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def places_on(namespaces: Sequence[str], machine_file: Path) -> list[Place]:
    """One rank in each namespace, which takes it for a host of its own."""
    machine_file.write_text("".join(f"{address}\n" for address in ADDRESSES), encoding="ascii")
    return [
        Place(
            prefix=("ip", "netns", "exec", name),
            variables={
                "TNT_LOCAL_RANK": "0",
                "TNT_LOCAL_SIZE": "1",
                "TNT_NODE_RANK": str(rank),
                "TNT_NUM_NODES": str(len(namespaces)),
                "GASPI_RANK": str(rank),
                "GASPI_NRANKS": str(len(namespaces)),
                "GASPI_SOCKET": "0",
                "GASPI_MFILE": str(machine_file),
            },
        )
        for rank, name in enumerate(namespaces)
    ]


def measure(fusion: str, places: Sequence[Place], arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the two ranks with one fusion threshold. Returns what rank 0 writes."""
    numbers = (arguments.batch_size, arguments.rounds, arguments.steps)
    variables = {"TNT_TRANSPORT": arguments.transport}
    words = [THRESHOLDS_KB[fusion], arguments.model, *numbers]
    return result_of_job("benchmarks.overlap.rank", words, places, variables, JOB_S)


def measure_all(places: Sequence[Place], arguments: argparse.Namespace) -> list[Row]:
    """All thresholds, one job each; prints the table as it grows."""
    rows: list[Row] = []
    for fusion in arguments.fusion:
        measured = measure(fusion, places, arguments)
        if not rows:
            options = {"transport": arguments.transport, "rate": arguments.rate}
            options |= {"model": arguments.model, "batch_size": arguments.batch_size}
            options |= {"parameters": measured["parameters"]}
            header = make_header("overlap", measured["versions"], options)
            print("\n".join(f"{name}: {value}" for name, value in header.items()))
            print(HEADER)
            if arguments.json:
                write_rows(arguments.json, [header], is_new=True)
        rows.append(make_row(fusion, measured["threshold_kb"], measured["rounds"]))
        print(line_of(rows[-1]), flush=True)
        if arguments.json:
            write_rows(arguments.json, rows[-1:])
    return rows


def main() -> int:
    arguments = make_parser().parse_args()
    with contextlib.ExitStack() as stack:
        if arguments.transport == "shm":
            places = [Place(), Place()]
        else:
            namespaces = stack.enter_context(limited_link(arguments.rate))
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            places = places_on(namespaces, Path(folder) / "machines")
        rows = measure_all(places, arguments)
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
