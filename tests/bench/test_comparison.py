"""Comparing two runs warns of what became better and fails on what became worse."""

import pytest

from benchmarks.allreduce.summary import comparable_ratios
from benchmarks.comparison import find_changes, report


def row(ratio, name="vs_peer", variant="in place"):
    ratios = [0.9 * ratio, ratio, 1.1 * ratio]
    return {"library": "tnt", "ranks": 2, "workload": "4MiB", "variant": variant, name: ratios}


@pytest.mark.parametrize(
    ("now", "status", "words"), [(0.7, 1, "worse"), (0.9, 0, ""), (1.1, 0, ""), (1.3, 0, "better")]
)
def test_only_a_clear_change_for_the_worse_fails(now, status, words, capsys):
    before, after = comparable_ratios([row(1.0)], [row(now)])
    assert report(find_changes(before, after, tolerance=0.2)) == status
    output = capsys.readouterr().out
    assert words in output
    assert bool(words) == bool(output)


def test_ratios_to_different_things_are_not_compared():
    before, after = comparable_ratios([row(4.0), row(0.5, "vs_memcpy", "out of place")], [])
    assert find_changes(before, after, tolerance=0.2) == []
    before, after = comparable_ratios([row(4.0)], [row(0.5, "vs_memcpy")])
    assert find_changes(before, after, tolerance=0.2) == []
