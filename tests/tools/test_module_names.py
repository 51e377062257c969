"""One run of pytest can collect all suites: their modules have names of their own."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def names_used_twice(paths):
    counts = Counter(path.name for path in paths)
    return sorted(name for name, count in counts.items() if count > 1)


def is_copy(path):
    return (ROOT / "tests" / path.name).is_file()


def test_no_two_test_modules_have_the_same_name():
    suites = ("packages/*/tests", "tests", "models")
    paths = [path for suite in suites for path in ROOT.glob(f"{suite}/**/test_*.py")]
    assert len(paths) > 100
    assert names_used_twice(paths) == []


def test_no_two_modules_that_tests_import_by_their_name_have_the_same():
    paths = [*ROOT.glob("packages/*/tests/**/*.py"), *ROOT.glob("tests/*.py")]
    # test_copies_for_sdists.py holds them equal.
    copies = {path for path in ROOT.glob("packages/*/tests/unit/*.py") if is_copy(path)}
    outside = [p for p in paths if not (p.parent / "__init__.py").exists() and p not in copies]
    assert len(outside) > 100
    assert names_used_twice(path for path in outside if path.name != "conftest.py") == []
