"""The allreduce benchmark runs with our library alone, and its rows mean what they say."""

import json

import pytest
from run_command import run_command

COMMAND = "python -m benchmarks.allreduce --peers --workloads 4KiB tiny --seconds 0.2 --rounds 2"
VARIANTS = {
    "4KiB": {
        "in place",
        "out of place",
        "new result",
        "tnt_comm.empty",
        "limit: memcpy",
        "limit: shared",
    },
    "tiny": {
        "in place",
        "out of place",
        "new result",
        "tnt_comm.empty",
        "GradientReducer",
        "GradientReducer, copies",
        "limit: memcpy",
        "limit: shared",
    },
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("allreduce") / "rows.jsonl"
    finished = run_command(f"{COMMAND} --ranks 2 3 --json {path}")
    assert finished.status == 0, finished.output + finished.messages
    return path


def read(file):
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if "host" in line], [line for line in lines if "ranks" in line]


def test_each_number_of_ranks_has_a_header_that_says_what_was_measured(file):
    headers, _ = read(file)
    assert [header["options"]["ranks"] for header in headers] == [2, 3]
    for header in headers:
        assert header["versions"]["tnt"].keys() == {"tnt-comm", "numpy"}
        assert header["cores"] >= 1


def test_every_variant_of_every_workload_has_one_row(file):
    _, rows = read(file)
    for ranks in (2, 3):
        for workload, variants in VARIANTS.items():
            of_workload = [r for r in rows if (r["ranks"], r["workload"]) == (ranks, workload)]
            assert sorted(r["variant"] for r in of_workload) == sorted(variants)


def test_bandwidths_and_ratios_follow_from_the_times(file):
    for row in read(file)[1]:
        lower, median, upper = row["call_us"]
        assert 0 < lower <= median <= upper
        assert row["rounds"] == 2
        assert row["calls"] >= 2 * row["rounds"]
        # Rounding to 0.01 us and 0.001 GB/s.
        algbw = row["bytes"] / median / 1e3
        assert row["algbw_gbs"] == pytest.approx(algbw, rel=0.02, abs=0.001)
        factor = 2 * (row["ranks"] - 1) / row["ranks"]
        assert row["busbw_gbs"] == pytest.approx(factor * row["algbw_gbs"], abs=0.002)
        references = {"vs_memcpy": "limit: memcpy", "vs_shared": "limit: shared"}
        references["vs_out"] = "out of place"
        for name, reference in references.items():
            if row["variant"] != reference:
                assert 0 <= row[name][0] <= row[name][1] <= row[name][2] > 0  # rounded
