"""Time of the element-wise loops of tnt-comm as compiled by each C++ compiler; see README.md."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import command
from benchmarks.kernels.cases import DTYPES, Arrays, Case, all_arrays
from benchmarks.kernels.library import TREE, Library, default_compilers, version_of
from benchmarks.records import Row, make_header
from benchmarks.spread import quartiles, rounded

Times = Mapping[str, Sequence[float]]


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command.make_parser("kernels", __doc__)
    parser.set_defaults(rounds=31)
    parser.add_argument(
        "--compilers", nargs="+", default=default_compilers(), metavar="COMMAND",
        help="such as g++-13; `zig` is that of the package ziglang",
    )  # fmt: skip
    parser.add_argument("--trees", nargs="+", type=Path, default=[TREE], metavar="FOLDER",
                        help="packages/tnt-comm of this and of other checkouts")  # fmt: skip
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=int, default=[8192, 32768, 1 << 20],
                        metavar="BYTES", help="of the largest array of a loop")  # fmt: skip
    parser.add_argument("--sample-us", type=float, default=50, help="what is timed at once")
    return parser


def build_all(compilers: Sequence[str], trees: Sequence[Path], folder: Path) -> dict[str, Library]:
    """Compile each tree with each compiler; the name says what differs."""
    libraries = {}
    for number, (compiler, tree) in enumerate(itertools.product(compilers, trees)):
        name = compiler if len(trees) == 1 else f"{compiler} {trees.index(tree)}"
        libraries[name] = Library(compiler, tree.resolve(), folder / str(number))
    return libraries


def check_bits(case: Case, arrays: Arrays, libraries: Mapping[str, Library]) -> None:
    """End with an error unless all libraries compute the same bits."""
    results = {}
    for name, library in libraries.items():
        library.time(arrays.loop, 1)
        results[name] = arrays.results()
    first, *others = results
    for name in others:
        if results[name] != results[first]:
            sys.exit(f"{case.dtype} {case.name}: the bits of {name} are not those of {first}")


def measure(
    arrays: Arrays, libraries: Mapping[str, Library], rounds: int, sample_us: float
) -> Times:
    """Nanoseconds of a call of each library, in turn, round after round."""
    shortest = min(library.time(arrays.loop, 10) for library in libraries.values())
    repeats = max(1, round(1000 * sample_us / shortest))
    times: dict[str, list[float]] = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, library in libraries.items():
            times[name].append(library.time(arrays.loop, repeats))
    return times


def make_row(case: Case, is_baseline: bool, num_bytes: int, times: Times) -> Row:
    """Quartiles over rounds; ratios to the first library, within a round. Pure."""
    row: Row = {"dtype": case.dtype, "loop": case.name}
    row |= {"instructions": "baseline" if is_baseline else "chosen", "bytes": num_bytes}
    row["ns"] = {name: rounded(quartiles(each), 1) for name, each in times.items()}
    row["spread_percent"] = {name: round(half_spread(each), 1) for name, each in row["ns"].items()}
    first, *others = times
    row["of_first"] = {
        name: rounded(quartiles([b / a for a, b in zip(times[first], times[name], strict=True)]), 3)
        for name in others
    }
    return row


def half_spread(spread: Sequence[float]) -> float:
    """Half the distance of the quartiles, as percent of the median. Pure."""
    lower, median, upper = spread
    return 50 * (upper - lower) / median


def line_of(row: Row) -> str:
    """For people: median, half the distance of the quartiles, and the ratio. Pure."""
    cells = [f"| {row['dtype']:8} | {row['loop']:8} | {row['instructions']:8} | {row['bytes']:7}"]
    for name, (_, median, _) in row["ns"].items():
        cells.append(f"{median:9.1f} ± {row['spread_percent'][name]:2.0f} %")
    cells += [f"{ratio[1]:5.2f}" for ratio in row["of_first"].values()]
    return " | ".join(cells) + " |"


def header_of(names: Sequence[str]) -> Iterator[str]:
    """The first lines of the table. Pure."""
    columns = ["dtype", "loop", "instructions", "bytes", *(f"{name}, ns" for name in names)]
    columns += [f"{name} / {names[0]}" for name in names[1:]]
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"


def main() -> None:
    arguments = make_parser().parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        libraries = build_all(arguments.compilers, arguments.trees, Path(folder))
        print(*header_of(list(libraries)), sep="\n", flush=True)
        for case, is_baseline, num_bytes, arrays in all_arrays(arguments.dtypes, arguments.sizes):
            check_bits(case, arrays, libraries)
            times = measure(arrays, libraries, arguments.rounds, arguments.sample_us)
            rows.append(make_row(case, is_baseline, num_bytes, times))
            print(line_of(rows[-1]), flush=True)
    versions = {compiler: version_of(compiler) for compiler in arguments.compilers}
    options = {"rounds": arguments.rounds, "trees": list(map(str, arguments.trees))}
    command.report(make_header("kernels", versions, options), rows, [], arguments.json)


if __name__ == "__main__":
    command.run(main)
