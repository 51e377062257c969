"""The questions: which programs answer each, and what their results say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.gpu.copies import DOWN, UP
from benchmarks.gpu.programs import Ended, Program
from benchmarks.gpu.results import Options
from benchmarks.records import Row
from benchmarks.spread import quartiles, rounded

ENGINES = ("ipc", "host")
COPIED_MEMORY = ("private, registered", "shared, registered")
"""What tnt-comm copies from and to: on one host, and with engines for several."""

LEAST_RATIO = 0.9  # of the speed of the best pinned memory
KILLED_RANKS, VICTIM = 3, 2
KILLED_STATUS = 128 + 9


class Finding(NamedTuple):
    """What a program has shown."""

    is_met: bool
    words: str
    is_of_time: bool = False  # which nothing but a GPU can show


@dataclass(frozen=True)
class Part:
    """A question, and the programs that answer it one after the other."""

    name: str
    question: str
    programs: Callable[[Options], Sequence[Program]]
    rows: Callable[[Program, Ended], list[Row]]
    findings: Callable[[Program, Ended], list[Finding]]


# ---- order ----


def order_programs(_: Options) -> list[Program]:
    return [Program("order")]


def order_rows(_: Program, ended: Ended) -> list[Row]:
    """A row for each kind of slow work, and one for the cost of calls. Pure."""
    result = ended.results[0]
    rows = [{"slow_work": work, "seen": seen} for work, seen in result["seen"].items()]
    if rows:
        rows.append({"call_us": result["call_us"], "held_ms": [result["held_ms"]] * 3})
    return rows


def order_findings(_: Program, ended: Ended) -> list[Finding]:
    """Pure."""
    result = ended.results[0]
    if not result["seen"]:
        words = f"cuCtxRecordEvent needs a driver of CUDA 12.5; this one is {result['driver']}"
        return [Finding(False, words)]
    telling = {
        work: seen for work, seen in result["seen"].items() if seen["control"] != result["new"]
    }
    if not telling:
        return [Finding(False, "streams order themselves: nothing can be said of events")]
    return [_order_finding(work, seen, result["new"]) for work, seen in telling.items()]


def _order_finding(work: str, seen: dict[str, int], new: int) -> Finding:
    wrong = [name for name in ("cuCtxRecordEvent", "cuCtxWaitEvent") if seen[name] != new]
    words = f"events of the whole context order its streams ({work})"
    return Finding(not wrong, f"{words}: not {', '.join(wrong)}" if wrong else words)


# ---- copies ----


def copies_programs(_: Options) -> list[Program]:
    return [Program("copies", limit_s=45)]


def copies_rows(_: Program, ended: Ended) -> list[Row]:
    """A row for each kind of memory and direction; `vs_limit` is 1 for the best. Pure."""
    result = ended.results[0]
    rows: list[Row] = []
    for memory, of_directions in result["times"].items():
        for direction, times in of_directions.items():
            limit = limit_ms(result, direction)
            rows.append(
                {
                    "memory": memory,
                    "direction": direction,
                    "bytes": result["bytes"],
                    "gb_per_s": _spread([gb_per_s(result["bytes"], t) for t in times["copy_ms"]]),
                    "vs_limit": _spread([limit / t for t in times["copy_ms"]]),
                    "held_ms": _spread(times["held_ms"]),
                }
            )
    for memory, taken in result["register_ms"].items():
        row = {"memory": memory, "direction": "registered", "bytes": result["bytes"]}
        rows.append({**row, "register_ms": [taken] * 3})
    both = [gb_per_s(2 * result["bytes"], t) for t in result["both_ms"]]
    row = {"memory": "pinned", "direction": "both at once", "bytes": result["bytes"]}
    return [*rows, {**row, "gb_per_s": _spread(both)}]


def limit_ms(result: dict[str, Any], direction: str) -> float:
    """The median time of the fastest pinned memory in this run. Pure."""
    times = (result["times"][memory][direction]["copy_ms"] for memory in result["pinned"])
    return min(quartiles(each)[1] for each in times)


def gb_per_s(num_bytes: int, milliseconds: float) -> float:
    """Pure."""
    return num_bytes / milliseconds / 1e6


def copies_findings(_: Program, ended: Ended) -> list[Finding]:
    """Whether what tnt-comm registers is copied as fast as anything can be. Pure."""
    result = ended.results[0]
    findings = []
    for memory, direction in itertools.product(COPIED_MEMORY, (DOWN, UP)):
        times = result["times"][memory][direction]["copy_ms"]
        ratio = limit_ms(result, direction) / quartiles(times)[1]
        least = f"at least {LEAST_RATIO:.0%} of the limit"
        words = f"{memory}, {direction}: {least} ({ratio:.0%})"
        findings.append(Finding(ratio >= LEAST_RATIO, words, is_of_time=True))
    return findings


# ---- bits ----


def bits_programs(options: Options) -> list[Program]:
    return [
        Program("bits", number, sums, limit_s=40) for number in options.ranks for sums in ENGINES
    ]


def bits_rows(program: Program, ended: Ended) -> list[Row]:
    """One row: how much was compared, and how much differs. Pure."""
    results = ended.results.values()
    totals = {name: sum(each[name] for each in results) for name in ("elements", "num_wrong")}
    return [{**_of_job(program), "cases": ended.results[0]["cases"], **totals}]


def bits_findings(program: Program, ended: Ended) -> list[Finding]:
    """Pure."""
    (row,) = bits_rows(program, ended)
    count = f"{row['elements']:,} sums"
    words = f"{_job_in_words(program)}: the bits of {count} are those of processors"
    first = next((each["first"] for each in ended.results.values() if each["first"]), "")
    told = f"{words}; {row['num_wrong']:,} differ. {first}" if first else words
    return [Finding(not row["num_wrong"], told)]


# ---- sums ----


def sums_programs(options: Options) -> list[Program]:
    chosen = sorted({min(options.ranks), max(options.ranks)})
    return [Program("sums", number, sums, limit_s=40) for number in chosen for sums in ENGINES]


def sums_rows(program: Program, ended: Ended) -> list[Row]:
    """One row, of the slowest rank in each round; ratios are taken within a round. Pure."""
    times = slowest(ended)
    step, host, down, up = (times[name] for name in ("step_ms", "host_ms", "d2h_ms", "h2d_ms"))
    parts = [sum(each) for each in zip(down, host, up, strict=True)]
    row = {
        **_of_job(program),
        "tensors": ended.results[0]["tensors"],
        "bytes": ended.results[0]["bytes"],
        **{name: _spread(each) for name, each in times.items()},
        "vs_copies": _spread([(d + u) / s for d, u, s in zip(down, up, step, strict=True)]),
        "vs_host": _spread([h / s for h, s in zip(host, step, strict=True)]),
    }
    if program.sums == "host":
        shares = {"d2h": down, "sum": host, "h2d": up}
        row["share_percent"] = {
            name: round(100 * sum(each) / sum(parts)) for name, each in shares.items()
        }
        row["vs_parts"] = _spread([p / s for p, s in zip(parts, step, strict=True)])
    return [row]


def slowest(ended: Ended) -> dict[str, list[float]]:
    """For each quantity and round the time of the rank that took longest. Pure."""
    of_ranks = [each["times"] for each in ended.results.values()]
    return {
        name: [max(each) for each in zip(*(times[name] for times in of_ranks), strict=True)]
        for name in of_ranks[0]
    }


def sums_findings(program: Program, ended: Ended) -> list[Finding]:
    """That sums come at all, as each rank has checked; how fast is for the reader. Pure."""
    number = ended.results[0]["tensors"]
    return [Finding(True, f"{_job_in_words(program)}: the sums of {number} gradients are right")]


# ---- kill ----


def kill_programs(options: Options) -> list[Program]:
    return [
        Program(
            "kill",
            KILLED_RANKS,
            sums,
            (moment,),
            status=KILLED_STATUS,
            answering=(VICTIM,),
        )
        for sums in ENGINES
        for moment in options.moments
    ]


def kill_rows(program: Program, ended: Ended) -> list[Row]:
    """One row: when the last of the others got its error, and when all had ended. Pure."""
    killed_s = ended.results[VICTIM]["at_s"]
    errors = [each["at_s"] - killed_s for rank, each in ended.results.items() if rank != VICTIM]
    row = {**_of_job(program), "moment": program.others[0], "job_s": [round(ended.seconds, 2)] * 3}
    return [{**row, "noticed_s": [round(max(errors), 3)] * 3} if errors else row]


def kill_findings(program: Program, ended: Ended) -> list[Finding]:
    """Whether each of the others, and the launcher, name the rank that was killed. Pure."""
    words = f"{_job_in_words(program)}, killed {program.others[0]}: the others name the rank"
    complaints = list(_complaints(ended))
    return [Finding(not complaints, "; but ".join([words, *complaints]))]


def _complaints(ended: Ended) -> Iterator[str]:
    for rank in range(VICTIM):
        found = ended.results.get(rank)
        if found is None:
            yield f"rank {rank} got no error"
        elif (found["kind"], found["cause_rank"]) != ("PeerLostError", VICTIM):
            yield f"rank {rank} got {found['kind']}: {found['error']}"


# ---- all ----


def _of_job(program: Program) -> Row:
    return {"ranks": program.num_ranks, "sums": program.sums}


def _job_in_words(program: Program) -> str:
    return f"{program.num_ranks} ranks, {program.sums}"


def _spread(values: Sequence[float]) -> list[float]:
    return rounded(quartiles(values), 3)


PARTS = (
    Part("order", "Do events of a whole context order streams whose handles are not known?",
         order_programs, order_rows, order_findings),
    Part("copies", "How fast are copies, by the kind of the host's memory?",
         copies_programs, copies_rows, copies_findings),
    Part("bits", "Have sums of tensors on the GPU the bits that they have on processors?",
         bits_programs, bits_rows, bits_findings),
    Part("sums", "How long does a sum of gradients take, beside copies and sums of arrays?",
         sums_programs, sums_rows, sums_findings),
    Part("kill", "Do the others name a rank that is killed within a sum?",
         kill_programs, kill_rows, kill_findings),
)  # fmt: skip
