"""Train on several numbers of ranks, with lanes and without, and compare bits; see README.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import command
from benchmarks.jobs import ROOT, outer_environment
from benchmarks.records import Row, make_header
from tnt_launch.verify.comparison import hash_of
from tnt_launch.verify.hash_file import Record, read_hash_file

TRAINING = "benchmarks.same_bits.train"
DEADLINE_S = 600


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bits", description=__doc__)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--lanes", type=int, default=8, metavar="V")
    parser.add_argument("--steps", type=int, default=60, help="of each training")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    return parser


def train(num_ranks: int, lanes: int | None, num_steps: int) -> Record:
    """Run the training through the launcher; return what rank 0 has hashed."""
    with tempfile.TemporaryDirectory() as folder:
        hashes = Path(folder) / "hashes.jsonl"
        of_lanes = [] if lanes is None else ["--lanes", str(lanes)]
        words = [sys.executable, "-m", "tnt_launch", "--no-gpu", "-n", str(num_ranks), *of_lanes]
        finished = subprocess.run(
            [*words, "--", "-m", TRAINING, str(num_steps)],
            env={**outer_environment(), "TNT_STEP_HASHES": str(hashes)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        record = read_hash_file(str(hashes))
    if finished.returncode or record is None or not record.has_ended:
        sys.exit(f"{num_ranks} ranks failed, exit code {finished.returncode}:\n{finished.stderr}")
    return record


def make_row(record: Record) -> Row:
    """What a run was, its hash, and the loss of each step. Pure."""
    return {
        "ranks": record.size,
        "lanes": record.lanes,
        "steps": len(record.steps),
        "hash": hash_of(record),
        "losses": [step.results["loss"].value for step in record.steps.values()],
    }


def line_of(row: Row) -> str:
    """For people. Pure."""
    lanes = "no" if row["lanes"] is None else row["lanes"]
    return f"{row['ranks']} ranks, {lanes} lanes: {row['hash']}, last loss {row['losses'][-1]!r}"


def hashes_with_lanes(rows: Sequence[Row]) -> list[str]:
    """Different hashes of the runs with lanes. Pure."""
    return sorted({row["hash"] for row in rows if row["lanes"] is not None})


def main() -> None:
    arguments = make_parser().parse_args()
    rows, versions = [], {}
    for lanes in (arguments.lanes, None):
        for num_ranks in arguments.ranks:
            record = train(num_ranks, lanes, arguments.steps)
            versions = {name: record.header[name] for name in ("tensorflow", "keras")}
            rows.append(make_row(record))
            print(line_of(rows[-1]), flush=True)
    header = make_header("same_bits", versions, {"lanes": arguments.lanes})
    command.report(header, rows, [], arguments.json)
    if len(hashes_with_lanes(rows)) > 1:
        sys.exit("MISSED: with lanes all numbers of ranks have the same bits")
    print("met: with lanes all numbers of ranks have the same bits")


if __name__ == "__main__":
    command.run(main)
