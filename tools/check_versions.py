"""Fail when versions of the tree do not fit the ranges in it, or a changelog lacks one."""

# Every package has a static version. A sibling's range must contain it, must not be open upwards (a
# later release may break it), and the package's changelog must have a section for it.

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BOUNDED = {"<", "<=", "==", "~="}
"""Operators that exclude later releases."""


def read_projects(root: Path) -> dict[str, dict[str, Any]]:
    """Return the `project` table of every package, by distribution name."""
    files = sorted(root.glob("packages/*/pyproject.toml"))
    tables = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    return {table["name"]: table for table in tables}


def check_ranges(projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence for every range on a sibling that excludes its version or has no end."""
    for name, project in projects.items():
        for requirement in map(Requirement, project.get("dependencies", [])):
            if requirement.name not in projects:
                continue
            version = projects[requirement.name]["version"]
            if not requirement.specifier.contains(version):
                yield f"{name} needs {requirement}, but the tree has {requirement.name} {version}"
            if not BOUNDED & {clause.operator for clause in requirement.specifier}:
                yield f"{name} needs {requirement}: give the range an upper bound"


def check_changelogs(root: Path, projects: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence for every package whose changelog has no section for its version."""
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
