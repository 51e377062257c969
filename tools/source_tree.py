"""The packages of this tree and what they need, as their pyproject.toml files say."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


PACKAGES = {
    path.parent.name: read_toml(path) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))
}
"""Found in packages/, so that a new one needs no line here."""

GROUPS: dict[str, list[str]] = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
WITH_RANKS = [name for name in PACKAGES if (ROOT / "packages" / name / "tests/ranks").is_dir()]


def suites_of_one_process(package: str) -> list[str]:
    """Return the folders of a package's tests that start no ranks: units, and what compiles."""
    folders = [f"packages/{package}/tests/{kind}" for kind in ("unit", "headers")]
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def needs_of(package: str) -> list[str]:
    """Return what a package requires at run time, TensorFlow under its usual name included."""
    project = PACKAGES[package]["project"]
    extras = project.get("optional-dependencies", {})
    return [*project.get("dependencies", []), *extras.get("tensorflow", [])]


def build_requirements(packages: Iterable[str]) -> list[str]:
    """Return what builds packages."""
    tables = (PACKAGES[name]["build-system"] for name in packages)
    return sorted({need for table in tables for need in table["requires"]})


def local_closure(package: str) -> list[str]:
    """Return the package and every sibling it needs, dependencies first."""
    needs = []
    for requirement in map(Requirement, needs_of(package)):
        if requirement.name in PACKAGES:
            needs += local_closure(requirement.name)
    return list(dict.fromkeys([*needs, package]))


def uses_tensorflow(package: str) -> bool:
    """Whether TensorFlow is among the requirements of a package or of the siblings it needs."""
    needs = [line for name in local_closure(package) for line in needs_of(name)]
    return any(Requirement(line).name == "tensorflow" for line in needs)


def requirements(*groups: str, packages: Iterable[str] = ()) -> list[str]:
    """Return requirements of groups of the root, and of the same groups of packages."""
    tables = [GROUPS, *(PACKAGES[name].get("dependency-groups", {}) for name in packages)]
    return [line for table in tables for group in groups for line in table.get(group, [])]


def oldest_versions() -> set[str]:
    """Return the lower bound of every requirement outside the tree, as pip constraints."""
    needs = {line for package in PACKAGES for line in needs_of(package)}
    return {
        f"{requirement.name}=={clause.version}\n"
        for requirement in map(Requirement, needs)
        for clause in requirement.specifier
        if clause.operator == ">=" and requirement.name not in PACKAGES
    }


def extra_of(package: str) -> str:
    """Return the extra that brings TensorFlow, in brackets, if the package has it."""
    extras = PACKAGES[package]["project"].get("optional-dependencies", {})
    return "[tensorflow]" if "tensorflow" in extras else ""


def is_compiled(package: str) -> bool:
    """Whether the build of a package runs a compiler."""
    return str(PACKAGES[package]["build-system"]["build-backend"]) != "hatchling.build"


def extends_python(package: str) -> bool:
    """Whether building a package compiles against the headers of Python."""
    return any("pybind11" in need for need in PACKAGES[package]["build-system"]["requires"])
