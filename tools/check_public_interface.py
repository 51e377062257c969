"""Fail when the public interface of a package has changed more than its version allows.

    python tools/check_public_interface.py              compare the tree with its records
    python tools/check_public_interface.py --released   and fail where a record is not of the tree
    python tools/check_public_interface.py --write      record what is there, for a release

The record of a package is its `public_interface.toml`, of the version that was released last:
Python names with their signatures, declarations of the C header, extras and commands, options,
variables. If that was a candidate, the record of the last version that was none stays beside it, so
that a chain of candidates hides nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from c_declarations import declarations_of
from interface_changes import Change, asked_for, changes, is_enough
from packaging.version import Version
from public_names import names_of
from source_tree import read_toml

COMMAND = "python tools/check_public_interface.py --write"
RECORD = "public_interface.toml"
LAST_FINAL = "public_interface_of_last_final.toml"  # while candidates follow it
HEADERS = {"tnt-comm": "include/tnt/comm/tnt_comm.h"}
C_VERSION = "TNT_COMM_ABI_VERSION"
COMMANDS = {
    "tnt-launch": {
        "tarantella": "make_parser",
        "tarantella doctor": "make_doctor_parser",
        "tarantella measure": "make_measure_parser",
    }
}
"""Functions of `planning/options.py` by the commands whose options they know."""

LIST_OPTIONS = """
import json, sys
from tnt_launch.planning import options

words = {}
for command, maker in json.load(sys.stdin).items():
    for action in getattr(options, maker)()._actions:  # argparse has no public list of them
        kind = f"flag for {action.const}" if action.nargs == 0 else "with a value"
        if action.nargs != 0 and action.default is not None:
            kind += f", default {action.default}"
        for word in action.option_strings:
            words[f"{command} {word}"] = kind
            words |= {f"{command} {word} {choice}": "word" for choice in action.choices or ()}
print(json.dumps(words))
"""

Interface = dict[str, dict[str, str]]
"""Names with what they are, by kind: `names`, `declarations`, `installed`, `options`..."""


class Package(NamedTuple):
    """A package as its pyproject.toml describes it."""

    name: str
    folder: Path
    version: Version
    installed: dict[str, str]  # extras and commands, which users name to pip and to a shell


def packages_of(root: Path) -> Iterator[Package]:
    """Yield the packages of a tree."""
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        project = read_toml(path)["project"]
        installed = {f"[{name}]": "extra" for name in project.get("optional-dependencies", ())}
        installed |= dict.fromkeys(project.get("scripts", ()), "command")
        version = Version(project["version"])
        yield Package(project["name"], path.parent, version, dict(sorted(installed.items())))


def interface_of(package: Package, root: Path) -> Interface:
    """Return the interface that the sources have."""
    found = {"names": names_of(package.name.replace("-", "_"), package.folder / "src")}
    if package.name in HEADERS:
        header = package.folder / HEADERS[package.name]
        found["declarations"] = declarations_of(header.read_text(encoding="utf-8"))
    if package.installed:
        found["installed"] = package.installed
    if package.name in COMMANDS:
        found["options"] = options_of(package)
    variables = variables_of(package.name, root / "environment.toml")
    return found | ({"variables": variables} if variables else {})


def options_of(package: Package) -> dict[str, str]:
    """Return the options of the commands; their module needs nothing but Python."""
    finished = subprocess.run(
        [sys.executable, "-c", LIST_OPTIONS],
        input=json.dumps(COMMANDS[package.name]),
        env={**os.environ, "PYTHONPATH": str(package.folder / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(finished.stdout)
    return dict(sorted(found.items()))


def variables_of(package: str, table: Path) -> dict[str, str]:
    """Return the variables that a package reads; those that no package reads are the launcher's."""
    found: dict[str, str] = {}
    tables = read_toml(table)
    for one in [*tables["rank"], *tables["setting"]]:
        readers = [name for name in one["read_by"] if name.startswith("tnt-")] or ["tnt-launch"]
        if package in readers:
            default = f", default {one['default']}" if "default" in one else ""
            found[one["name"]] = one.get("type", "of a rank") + default
            found |= {f"{one['name']}={word}": "word" for word in one.get("words", ())}
    return dict(sorted(found.items()))


def read_record(path: Path) -> tuple[Version, Interface] | None:
    """Return the version and the interface that are recorded, if any."""
    if not path.is_file():
        return None
    tables = read_toml(path)
    last_final = path.with_name(tables.pop("last_final", path.name))
    if not last_final.is_file():
        sys.exit(f"{last_final} is missing: take it from the last commit that has it")
    return Version(tables.pop("version")), tables


def write_record(package: Package, interface: Interface) -> None:
    """Record an interface; a candidate leaves that of the last version that was none."""
    record, last_final = package.folder / RECORD, package.folder / LAST_FINAL
    before = read_record(record)
    if not package.version.is_prerelease:
        last_final.unlink(missing_ok=True)
    elif before is not None and not before[0].is_prerelease:
        record.rename(last_final)
    lines = [
        "# What programs may use of this package, as of the version released last. Written by",
        f"# {COMMAND}",
        "",
        f'version = "{package.version}"',
    ]
    if last_final.is_file():
        lines.append(f'last_final = "{LAST_FINAL}"')
    for kind, table in interface.items():
        lines += ["", f"[{kind}]"]
        lines += [f"{json.dumps(name)} = {json.dumps(text)}" for name, text in table.items()]
    record.write_text("\n".join([*lines, ""]), encoding="utf-8")


def differences(before: Interface, now: Interface) -> list[Change]:
    """Return what differs, whatever its kind."""
    kinds = dict.fromkeys([*before, *now])
    return [change for kind in kinds for change in changes(before.get(kind, {}), now.get(kind, {}))]


def violations_of(package: Package, before: tuple[Version, Interface], now: Interface) -> list[str]:
    """Return a sentence for each change for which the version has not moved enough."""
    version, recorded = before
    path = f"packages/{package.name}/pyproject.toml"
    if package.version < version:
        return [f"{package.name} {package.version} is older than {version}: raise it in {path}"]
    found = [
        f"{package.name}: {change.text}: raise {asked_for(version, change.breaks)} in {path}"
        for change in differences(recorded, now)
        if not is_enough(version, package.version, change.breaks)
    ]
    return [*_violations_in_c(package, recorded, now), *found]


def _violations_in_c(package: Package, before: Interface, now: Interface) -> Iterator[str]:
    tables: list[Mapping[str, str]] = [one.get("declarations", {}) for one in (before, now)]
    numbers = [int(table.get(C_VERSION, "0")) for table in tables]
    if numbers[1] > numbers[0]:
        return
    for change in changes(*tables):
        if change.breaks:
            header = f"packages/{package.name}/{HEADERS[package.name]}"
            yield f"{package.name}: {change.text}: raise {C_VERSION} in {header}"


def main(arguments: list[str] | None = None) -> int:
    """Print a sentence for each change that lacks a version; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Compare public interfaces with their records.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--released", action="store_true", help="ask for records of this tree")
    parser.add_argument("--write", action="store_true", help="record what is there")
    options = parser.parse_args(arguments)
    sentences: list[str] = []
    for package in packages_of(options.root):
        now = interface_of(package, options.root)
        last_final, before = (read_record(package.folder / name) for name in (LAST_FINAL, RECORD))
        records = [record for record in (last_final, before) if record is not None]
        found = [each for record in records for each in violations_of(package, record, now)]
        sentences += dict.fromkeys(found)
        if before == (package.version, now) or found:
            continue
        if options.write:
            write_record(package, now)
        elif before is None:
            sentences.append(f"packages/{package.name}/{RECORD} is missing: run `{COMMAND}`")
        elif options.released:
            record = f"packages/{package.name}/{RECORD} is of {package.name} {before[0]}"
            sentences.append(f"{record}, and the tree is {package.version}: run `{COMMAND}`")
    for sentence in sentences:
        print(sentence)
    return 1 if sentences else 0


if __name__ == "__main__":
    raise SystemExit(main())
