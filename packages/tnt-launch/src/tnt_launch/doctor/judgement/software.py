"""Findings about Python, the packages of Tarantella, TensorFlow and Keras."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

from tnt_launch.doctor.facts import Finding

_COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([\d.]+)\s*")
# The packages of Tarantella.
PARTS = ("tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch")

_MISSING = "not installed"


def is_allowed(version: str, required: str) -> bool:
    """Return whether a version is in a range such as `>=3.8,<4`; other forms allow all. Pure."""
    clauses = map(_CLAUSE.fullmatch, required.split(",") if required.strip() else ())
    own = _numbers(version)
    for clause in clauses:
        if clause is None:
            continue
        bound = _numbers(clause[2])
        size = max(len(own), len(bound))
        if not _COMPARISONS[clause[1]](_padded(own, size), _padded(bound, size)):
            return False
    return True


def _numbers(version: str) -> list[int]:
    """Return the numbers of a release; what marks a candidate or a build of it is left out."""
    found = re.match(r"\d+(\.\d+)*", version)
    return [int(word) for word in found[0].split(".")] if found else []


def _padded(numbers: list[int], size: int) -> list[int]:
    return numbers + [0] * (size - len(numbers))


def judge_python(facts: Mapping[str, Any]) -> Finding:
    """Say whether a Python is supported. Pure."""
    version, required = facts["version"], facts["required"]
    text = f"{version}, {facts['path']}"
    if is_allowed(version, required):
        return Finding("ok", "Python", text)
    text = f"{text}; supported is {required}"
    remedy = "Make an environment with a Python of these versions, and install tarantella into it."
    return Finding("problem", "Python", text, remedy)


def judge_packages(facts: Mapping[str, Any]) -> Finding:
    """Say whether all packages of Tarantella are there and fit each other. Pure."""
    installed, required = facts["installed"], facts["required"]
    missing = [part for part in PARTS if installed[part] == _MISSING]
    if missing:
        text = f"not installed: {', '.join(missing)}"
        remedy = "Install all packages of tarantella into this environment, as its README says."
        return Finding("problem", "packages", text, remedy)
    unfit = [
        f"{part} {installed[part]} needs {name}{versions}, not {installed[name]}"
        for part in PARTS
        for name, versions in required[part].items()
        if name in PARTS and not is_allowed(installed[name], versions)
    ]
    if unfit:
        text = "; ".join(unfit)
        remedy = "Install all packages of tarantella anew, from one release."
        return Finding("problem", "packages", text, remedy)
    return Finding("ok", "packages", ", ".join(f"{part} {installed[part]}" for part in PARTS))


def judge_tensorflow(facts: Mapping[str, Any], packages: Mapping[str, Any]) -> Finding:
    """Say whether a TensorFlow that was imported is supported. Pure."""
    text = f"{facts['version']}, imported in {facts['seconds']:.1f} s"
    return _supported("TensorFlow", "tensorflow", facts["version"], text, packages)


def judge_keras(facts: Mapping[str, Any], packages: Mapping[str, Any]) -> Finding:
    """Say whether a Keras that was imported is supported. Pure."""
    if facts["backend"] != "tensorflow":
        text = f"{facts['version']}, with the backend {facts['backend']}"
        remedy = "Set KERAS_BACKEND=tensorflow, or correct ~/.keras/keras.json."
        return Finding("problem", "Keras", text, remedy)
    return _supported("Keras", "keras", facts["version"], facts["version"], packages)


def judge_operations(facts: Mapping[str, Any]) -> Finding:
    """Say that the operations of tnt-keras were loaded. Pure."""
    return Finding("ok", "operations", "the library of tnt-keras fits TensorFlow and tnt-comm")


def _supported(
    check: str, package: str, version: str, text: str, packages: Mapping[str, Any]
) -> Finding:
    required = packages["required"]["tnt-keras"].get(package, "")
    if is_allowed(version, required):
        return Finding("ok", check, text)
    text = f"{text}; supported is {required}"
    remedy = f'Run `pip install "{package}{required}"`.'
    return Finding("problem", check, text, remedy)
