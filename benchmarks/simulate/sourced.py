"""Files of inputs: TOML in which each number says where it comes from. Unknown keys are errors."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
Table = Mapping[str, Any]


class WrongInput(ValueError):
    """A file of inputs does not have the keys that it must have."""


@dataclass(frozen=True)
class Sourced:
    """A value, and where it comes from."""

    value: Any
    source: str


def read(folder: str, name: str) -> dict[str, Any]:
    """The file of a name, as plain tables."""
    path = FOLDER / folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.toml")))
        raise WrongInput(f"There is no `{name}` in {folder}. Known: {known}.")
    return read_file(path)


def read_file(path: Path) -> dict[str, Any]:
    """Any file, as plain tables."""
    with path.open("rb") as file:
        return tomllib.load(file)


def require_keys(
    table: Table, where: str, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """Raise WrongInput unless the table has these keys and no others."""
    unknown = [key for key in table if key not in (*required, *optional)]
    missing = [key for key in required if key not in table]
    for found, what in ((unknown, "unknown"), (missing, "missing")):
        if found:
            raise WrongInput(
                f"{where} has {what} keys: {', '.join(found)}. Known: {', '.join(required)}."
            )


def sourced(table: Table, where: str, keys: Sequence[str]) -> dict[str, Sourced]:
    """Values of a table whose entries are `{ value = ..., source = "..." }`."""
    require_keys(table, where, keys)
    found = {}
    for key, entry in table.items():
        if not isinstance(entry, dict):
            raise WrongInput(f"{where}.{key} must have a value and a source. Received: {entry!r}.")
        require_keys(entry, f"{where}.{key}", ("value", "source"))
        if not entry["source"].strip():
            raise WrongInput(f"{where}.{key} has an empty source.")
        found[key] = Sourced(entry["value"], entry["source"])
    return found
