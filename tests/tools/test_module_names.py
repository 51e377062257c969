"""One run of pytest can collect all suites: their modules have names of their own."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = ("packages/*/tests", "tests", "models")


def test_no_two_test_modules_have_the_same_name():
    paths = [path for suite in SUITES for path in ROOT.glob(f"{suite}/**/test_*.py")]
    counts = Counter(path.name for path in paths)
    assert len(paths) > 100
    assert [name for name, count in counts.items() if count > 1] == []
