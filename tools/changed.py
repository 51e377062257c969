"""What a change can break: in which parts of the tree it is, and which checks look at them.

A part is a package, the tests of a package, a folder beside the packages, or `EVERYTHING`: files of
the root, and what all tests share. A check looks at the packages that it runs, with those that they
need.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import PurePosixPath

from source_tree import PACKAGES, ROOT, local_closure

EVERYTHING = "all of the tree"
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "main", "origin/master", "master")
FOLDERS = ("benchmarks", "docs", "examples", "models", "tools")
"""Folders beside the packages, each of which is a part."""
LOOKS_AT = {
    "style": {EVERYTHING},
    "tests/tools": {EVERYTHING},
    "types": {*PACKAGES, "tools", "benchmarks", "models"},
    "models": {*PACKAGES, "models"},
    "tests/bench": {*PACKAGES, "benchmarks", "models"},
    "tests/contract": {*PACKAGES, "docs"},
    "tests/docs": {*PACKAGES, "docs", "benchmarks", "examples", "models"},
    "tests/end_to_end": {*PACKAGES, "benchmarks", "models"},
    "tests/schedulers": {*PACKAGES, "docs", "examples"},
    "docs": {*PACKAGES, "docs", "benchmarks", "examples", "models"},
    "wheels": {*PACKAGES},
    "C++ tests": {"tnt-comm"},
}
"""Parts by check or folder of tests; `parts_of` adds the folder itself, and knows packages."""


def part_of(path: str) -> str:
    """Return the part of the tree in which a file lies."""
    first, *rest = PurePosixPath(path).parts
    if path.endswith("CHANGELOG.md") or (not rest and path.endswith(".md")):
        return "docs"
    if first == "packages" and len(rest) > 1:
        return f"tests of {rest[0]}" if rest[1] == "tests" else rest[0]
    if first == "tests" and len(rest) > 1:
        return f"tests/{rest[0]}"
    return first if rest and first in FOLDERS else EVERYTHING


def parts_of(check: str) -> set[str]:
    """Return what a check, or a folder or file of tests, looks at."""
    words = PurePosixPath(check).parts
    if words[0] == "packages":
        return {*local_closure(words[1]), f"tests of {words[1]}"}
    return LOOKS_AT[check] | ({check} if words[0] == "tests" else set())


def can_break(changed: Iterable[str], check: str) -> bool:
    """Whether a change in some parts can break a check."""
    parts, looked_at = set(changed), parts_of(check)
    return bool(parts & looked_at or EVERYTHING in parts or (parts and EVERYTHING in looked_at))


def changed_files() -> tuple[str, list[str]]:
    """Return the main branch, and the files that differ from where this one has left it.

    Files that are not committed count, and so do new ones that git does not ignore.
    """
    main = next((name for name in MAIN_BRANCHES if _git("rev-parse", "--verify", "-q", name)), None)
    if main is None:
        raise SystemExit(f"There is no branch to compare with: {', '.join(MAIN_BRANCHES)}.")
    [base] = _git("merge-base", "HEAD", main)
    files = _git("diff", "--name-only", "--no-renames", base)
    return main, [*files, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
