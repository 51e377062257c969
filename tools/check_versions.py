"""Fail when versions in the tree do not satisfy the ranges in the tree, or a changelog lacks one.

Every package has a static version. A sibling's range must contain it, must not be open upwards (a
later release may break it), and the package's changelog must have a section for it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """`1.2.0` as (1, 2); trailing zeros say nothing, so that 1.2 equals 1.2.0."""
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def satisfies(version: str, ranges: str) -> bool:
    """Whether a version lies in a range such as `>=0.1,<0.2`.

    Raises:
        ValueError: For anything but a list of `>=`, `>`, `<`, `<=`, `==` and plain numbers.
    """
    own = parse_version(version)
    for clause in filter(None, (part.strip() for part in ranges.split(","))):
        match = re.fullmatch(r"(>=|<=|==|>|<)\s*(\d+(?:\.\d+)*)", clause)
        if match is None:
            raise ValueError(f"cannot read the version range {ranges!r}")
        operator, bound = match.group(1), parse_version(match.group(2))
        holds = {
            ">=": own >= bound,
            "<=": own <= bound,
            "==": own == bound,
            ">": own > bound,
            "<": own < bound,
        }
        if not holds[operator]:
            return False
    return True


def read_projects(root: Path) -> dict[str, dict[str, Any]]:
    """The `project` table of every package, by distribution name."""
    files = sorted(root.glob("packages/*/pyproject.toml"))
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    return {table["name"]: table for table in tables}


def check_ranges(projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One sentence for every range on a sibling that its version in the tree does not satisfy."""
    for name, project in projects.items():
        for requirement in project.get("dependencies", []):
            match = re.fullmatch(r"([\w.-]+)\s*(.*)", requirement.split(";")[0].strip())
            if match is None or match.group(1) not in projects:
                continue
            sibling, ranges = match.groups()
            version = projects[sibling]["version"]
            if not satisfies(version, ranges):
                yield f"{name} needs {sibling} {ranges}, but the tree has {sibling} {version}"
            if "<" not in ranges and "==" not in ranges:
                yield f"{name} needs {sibling} {ranges or '(any)'}: give the range an upper bound"


def check_changelogs(root: Path, projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One sentence for every package whose changelog has no section for its version."""
    for name, project in projects.items():
        changelog = root / "packages" / name / "CHANGELOG.md"
        text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
        for heading in ("Unreleased", project["version"]):
            if not re.search(rf"^## \[?{re.escape(heading)}\b", text, re.MULTILINE):
                yield f"{changelog.relative_to(root)}: no section for {heading}"


def main(arguments: list[str] | None = None) -> int:
    """Print every contradiction; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check versions, ranges and changelogs.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args(arguments).root
    projects = read_projects(root)
    violations = [*check_ranges(projects), *check_changelogs(root, projects)]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
