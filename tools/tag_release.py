"""Tag the packages whose versions have no tag yet, unless something about a version is wrong.

    python tools/tag_release.py --dry-run   show the tags that are missing
    python tools/tag_release.py             make them, for `git push origin TAG`

A tag is `tnt-comm-v1.0.0rc1`. Versions, changelogs and records of public interfaces must be those
of a release, and all of it committed. A package that keeps its version gets no tag.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import check_public_interface
import check_versions
from source_tree import local_closure

IN_A_RELEASE = ("src", "cpp", "include", "cmake", "CMakeLists.txt", "pyproject.toml")
"""What lies below a package and is in what users install."""


def tags_of(root: Path) -> dict[str, str]:
    """Return the tag of each package of a tree."""
    projects = check_versions.read_projects(root)
    return {name: f"{name}-v{project['version']}" for name, project in projects.items()}


def violations_of(root: Path, names: list[str]) -> Iterator[str]:
    """Yield what is in the way of a release of some packages, beside what the checks find."""
    if _git(root, "status", "--porcelain"):
        yield "not all is committed: commit or stash what `git status` shows"
    for name in names:
        path = root / "packages" / name / "CHANGELOG.md"
        unreleased = path.read_text(encoding="utf-8").partition("## [Unreleased]\n")[2]
        if re.split(r"^## ", unreleased, flags=re.MULTILINE)[0].strip():
            yield (
                f"{path.relative_to(root)}: move what stands below [Unreleased] to the section of "
                "the version"
            )


def left_behind(root: Path, tags: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for each package that differs from its tag and keeps its version.

    Siblings are tested beside the tree, and would be installed beside what was released.
    """
    for name, tag in tags.items():
        folders = [f"packages/{name}/{one}" for one in IN_A_RELEASE]
        if _git(root, "diff", "--name-only", tag, "HEAD", "--", *folders):
            yield f"{name} has changed since {tag}: raise its version, and release it as well"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Make the missing tags and print their names; exit status 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Tag the packages that are to be released.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--dry-run", action="store_true", help="make no tag")
    options = parser.parse_args(arguments)
    root = str(options.root)
    if check_versions.main([root]) or check_public_interface.main([root, "--released"]):
        return 1
    tags = tags_of(options.root)
    present = _git(options.root, "tag", "--list").splitlines()
    missing = {name: tag for name, tag in tags.items() if tag not in present}
    kept = {name: tag for name, tag in tags.items() if name not in missing}
    violations = [*violations_of(options.root, list(missing)), *left_behind(options.root, kept)]
    for violation in violations:
        print(violation)
    if violations:
        return 1
    for name in sorted(missing, key=lambda each: len(local_closure(each))):  # leaves first
        tag = missing[name]
        if not options.dry_run:
            _git(options.root, "tag", "--annotate", tag, "--message", tag.replace("-v", " "))
        print(f"git push origin {tag}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
