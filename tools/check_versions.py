"""Fail when versions of the tree do not fit the ranges in it, or a changelog lacks one."""

# Every package has a static version. A sibling's range, also in an extra, must contain it, begin
# somewhere, and end before the next major version, which may break what was there; and the
# package's changelog must have a section for it, with its date.

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version
from source_tree import read_toml

BEGINNINGS = {">", ">=", "==", "~="}
"""Operators that exclude earlier releases."""


def read_projects(root: Path) -> dict[str, dict[str, Any]]:
    """Return the `project` table of every package, by distribution name."""
    files = sorted(root.glob("packages/*/pyproject.toml"))
    tables = [read_toml(path)["project"] for path in files]
    return {table["name"]: table for table in tables}


def check_ranges(projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence for every range on a sibling that does not fit the tree."""
    for name, project in projects.items():
        extras = project.get("optional-dependencies", {})
        lines = [*project.get("dependencies", []), *chain.from_iterable(extras.values())]
        for requirement in map(Requirement, lines):
            if requirement.name in projects:
                version = Version(projects[requirement.name]["version"])
                yield from check_range(name, requirement, version)


def check_range(name: str, requirement: Requirement, version: Version) -> Iterator[str]:
    """Yield what is wrong with the range on a sibling of that version."""
    begin = f"{name} needs {requirement}"
    if not requirement.specifier.contains(version, prereleases=True):
        yield f"{begin}, but the tree has {requirement.name} {version}"
    if requirement.specifier.contains(str(version.major + 1)):
        yield f"{begin}: give the range the upper bound <{version.major + 1}"
    if not BEGINNINGS & {clause.operator for clause in requirement.specifier}:
        yield f"{begin}: give the range a lower bound"


def check_changelogs(root: Path, projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence for every section that a changelog lacks."""
    for name, project in projects.items():
        changelog = root / "packages" / name / "CHANGELOG.md"
        text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
        if re.search(r"^(<{7}|={7}|>{7})", text, re.MULTILINE):
            yield f"{changelog.relative_to(root)}: has the marks of a merge that was not finished"
        if not re.search(r"^## \[Unreleased\]$", text, re.MULTILINE):
            yield f"{changelog.relative_to(root)}: no section `## [Unreleased]`"
        version = re.escape(project["version"])
        dates = re.findall(rf"^## \[{version}\] - (\S+)$", text, re.MULTILINE)
        if not any(map(is_date, dates)):
            heading = f"[{project['version']}] - YYYY-MM-DD"
            yield f"{changelog.relative_to(root)}: no section `## {heading}`"


def is_date(text: str) -> bool:
    """Whether a text is a day of the calendar, as 2026-11-30 is."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def check_spelling(projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence for every version that tools would write in another way."""
    for name, project in projects.items():
        normal = str(Version(project["version"]))
        if project["version"] != normal:
            yield f"{name}: write the version {project['version']} as {normal}"


def main(arguments: list[str] | None = None) -> int:
    """Print every contradiction; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check versions, ranges and changelogs.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args(arguments).root
    projects = read_projects(root)
    violations = [
        *check_spelling(projects),
        *check_ranges(projects),
        *check_changelogs(root, projects),
    ]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
