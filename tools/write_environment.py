"""Write the tables of `TNT_*` variables of all packages and of the documentation.

    python tools/write_environment.py           write them from environment.toml
    python tools/write_environment.py --check   fail where a file differs from what would be written

tnt-launch and tnt-keras share no code, but one grammar of values: the module of the former is
copied into the latter. Needs Python 3.11 or the package tomli.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TABLE = "environment.toml"
LAUNCHER = "packages/tnt-launch/src/tnt_launch/planning"
KERAS = "packages/tnt-keras/src/tnt_keras/process"
COMM = "packages/tnt-comm/cpp/tnt/comm/base/variables.hpp"
PAGE = "docs/reference/environment.md"
COMMAND = "python tools/write_environment.py"
NOTE = f"Written by tools/write_environment.py from {TABLE}."
MARKS = [f"# {NOTE}", "# fmt: off", "# ruff: noqa: E501"]

LINE_LENGTH = 100

LAUNCHER_KINDS = {"Counts", "HostAndPort", "Text"}
"""Kinds of the launcher's `kinds.py`; one that tnt-keras reads too goes to `grammar.py`."""

Variable = Mapping[str, Any]
"""An entry of the table: `name`, `doc`, `read_by`, and what environment.toml says of settings."""

_KINDS = {
    "boolean": "Boolean()",
    "counts": "Counts()",
    "host and port": "HostAndPort()",
    "integer": "Integer({limits})",
    "integer or auto": "IntegerOrAuto()",
    "path": "Path({may_be_blank})",
    "seconds": "Seconds()",
    "text": "Text({least_bytes})",
    "word": "Word({words})",
}


def read_table(root: Path) -> tuple[list[Variable], list[Variable]]:
    """Return the variables that describe a rank, and the settings."""
    table = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    for one in table["setting"]:
        if ("group" in one) != ("help" in one) or ("help" in one and "option" not in one):
            raise SystemExit(f"{TABLE}: {one['name']}: an option needs `option`, `group`, `help`")
    return table["rank"], table["setting"]


def python_name(variable: Variable) -> str:
    """Return the constant of a variable: `TIMEOUT_S` of `TNT_TIMEOUT_S`."""
    return str(variable["name"]).removeprefix("TNT_")


def launcher_table(ranks: list[Variable], settings: list[Variable]) -> str:
    """Return the launcher's module of all settings, with the options that set them."""
    lines = [
        "",
        f"USER_VARIABLES = ({', '.join(map(python_name, settings))})",
        "OPTIONS = {",
        *(f"    {quoted(one['name'])}: {option(one)}," for one in settings if "group" in one),
        "}",
    ]
    classes = {_KINDS[one["type"]].partition("(")[0] for one in settings} | {"Option", "Variable"}
    others = sorted(classes & LAUNCHER_KINDS | {"Option"})
    head = [
        '"""The table of `TNT_*` variables; `grammar.py` says how their values are written."""',
        "",
        *MARKS,
        "",
        import_of("tnt_launch.planning.grammar", sorted(classes - {*others})),
        import_of("tnt_launch.planning.kinds", others),
        "",
    ]
    return "\n".join([*head, declarations(ranks, settings, settings), *lines]) + "\n"


def import_of(module: str, names: Iterable[str]) -> str:
    """Return an import of sorted names, with a name on each line if one line is too short."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def keras_table(
    root: Path, ranks: list[Variable], settings: list[Variable], own: list[Variable]
) -> str:
    """Return the module of tnt-keras: the launcher's grammar, and its own settings below."""
    grammar = (root / LAUNCHER / "grammar.py").read_text(encoding="utf-8")
    grammar = grammar.replace("`variables.py` beside it is", "below is")
    lines = ["", "", *MARKS[1:], "", declarations(ranks, settings, own)]
    mark = f"{MARKS[0]}\n# The grammar is a copy of that of tnt-launch.\n"
    return mark + grammar + "\n".join(lines) + "\n"


def declarations(ranks: list[Variable], settings: list[Variable], own: list[Variable]) -> str:
    """Return the settings that are a package's own as Python, and the names of all."""
    names = ", ".join(quoted(one["name"]) for one in settings)
    lines = [
        *(f"{python_name(one)} = {declaration(one)}" for one in own),
        "",
        "# What describes a rank belongs to the launcher: what it finds there is replaced.",
        f"JOB_VARIABLES = ({', '.join(quoted(one['name']) for one in ranks)})",
        f"ALL_NAMES = (*JOB_VARIABLES, {names})",
    ]
    return "\n".join(lines)


def declaration(variable: Variable) -> str:
    """Return the Python expression of a setting."""
    limits = [f"{end}={variable[end]}" for end in ("minimum", "maximum") if end in variable]
    kind = _KINDS[variable["type"]].format(
        limits=", ".join(limits),
        may_be_blank="may_be_blank=True" if variable.get("may_be_blank") else "",
        least_bytes=variable.get("least_bytes", ""),
        words=f"({', '.join(map(quoted, variable.get('words', ())))})",
    )
    return f"Variable({quoted(variable['name'])}, {kind}, {quoted(variable.get('default'))})"


def option(variable: Variable) -> str:
    """Return the Python expression of the option of `tarantella` that sets a variable."""
    words = [variable["option"], variable["group"], variable["help"], variable.get("metavar")]
    return f"Option({', '.join(quoted(word) for word in words if word is not None)})"


def quoted(value: object) -> str:
    """Return a value as Python and C++ write it, texts in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def cpp_table(ranks: list[Variable], settings: list[Variable]) -> str:
    """Return the C++ header of the variables that tnt-comm reads."""
    own = [one for one in [*ranks, *settings] if "tnt-comm" in one["read_by"]]
    of_ranks = [f"{cpp_name(one)}.name" for one in ranks if one in own]
    most = max(len(one.get("words", ())) for one in own)
    return f"""\
// {NOTE}
// clang-format off
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tnt::comm::variables {{

/// Words in the order of the enumeration that they stand for; empty ones are none.
using Words = std::array<std::string_view, {most}>;

/// A variable, and what its value may be.
struct Variable {{
  const char* name;
  const char* fallback = nullptr;  ///< text of the value where it is not set
  int minimum = 0;                 ///< of an integer
  int maximum = 2147483647;
  std::size_t least_bytes = 0;     ///< of a text
  Words words{{}};
}};

{chr(10).join(map(cpp_declaration, own))}

/// What describes a rank. All other variables are settings of the user.
constexpr std::array kOfRanks = {{{", ".join(of_ranks)}}};

}}  // namespace tnt::comm::variables
"""


def cpp_name(variable: Variable) -> str:
    """Return the constant of a variable: `kTimeoutS` of `TNT_TIMEOUT_S`."""
    return "k" + python_name(variable).title().replace("_", "")


def cpp_declaration(variable: Variable) -> str:
    """Return the C++ definition of a variable."""
    fields = [f".name = {quoted(variable['name'])}"]
    if "default" in variable:
        fields.append(f".fallback = {quoted(str(variable['default']))}")
    fields += [
        f".{field} = {variable[field]}"
        for field in ("minimum", "maximum", "least_bytes")
        if field in variable
    ]
    if "words" in variable:
        fields.append(f".words = {{{', '.join(map(quoted, variable['words']))}}}")
    return f"constexpr Variable {cpp_name(variable)}{{{', '.join(fields)}}};"


def page(root: Path, ranks: list[Variable], settings: list[Variable]) -> str:
    """Return the page of the documentation with new tables."""
    text = (root / PAGE).read_text(encoding="utf-8")
    tables = {"rank": page_rows(ranks, False), "setting": page_rows(settings, True)}
    for kind, rows in tables.items():
        mark = f"<!-- [[{kind}]] of {TABLE} -->\n\n"
        pattern = re.escape(mark) + r"(\|.*\n)*"
        table = mark + "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)
        text, count = re.subn(pattern, table.replace("\\", r"\\"), text)
        if count != 1:
            raise SystemExit(f"{PAGE} needs one line {mark.strip()}")
    return text


def page_rows(variables: Iterable[Variable], are_settings: bool) -> Iterator[list[str]]:
    """Yield the cells of each line of a table."""
    titles = ["variable", "value", "default", "meaning", "read by", "option"]
    columns = range(6) if are_settings else (0, 1, 3, 4)
    yield [titles[i] for i in columns]
    yield ["---" for _ in columns]
    for one in variables:
        name = f"`{one['option']}`" if "option" in one else ""
        cells = [f"`{one['name']}`", value_text(one), default_text(one), one["doc"]]
        cells += [", ".join(one["read_by"]), name]
        yield [cells[i] for i in columns]


def value_text(variable: Variable) -> str:
    """Say in Markdown what a value may be."""
    if "value" in variable:
        return str(variable["value"])
    least = variable.get("minimum", 0)
    integer = f"integer, {least} to {variable['maximum']}" if "maximum" in variable else ""
    return {
        "counts": "numbers with an `x` between two of them",
        "host and port": "`host:port`",
        "integer": integer or f"integer, at least {least}",
        "integer or auto": "integer, at least 0, or `auto`",
        "seconds": "seconds, above 0",
        "text": f"text, {variable.get('least_bytes', 0)} characters or more",
        "word": ", ".join(f"`{word}`" for word in variable.get("words", ())),
    }.get(variable["type"]) or str(variable["type"])


def default_text(variable: Variable) -> str:
    """Say in Markdown what holds where a variable is not set."""
    default = variable.get("default", variable.get("default_doc", ""))
    is_word = isinstance(default, str) and default in variable.get("words", ())
    return f"`{default}`" if is_word else str(default).replace("False", "false")


def written(root: Path) -> dict[str, str]:
    """Return the content of every file that is written, by its path."""
    ranks, settings = read_table(root)
    of_keras = [one for one in settings if "tnt-keras" in one["read_by"]]
    return {
        f"{LAUNCHER}/variables.py": launcher_table(ranks, settings),
        f"{KERAS}/variables.py": keras_table(root, ranks, settings, of_keras),
        COMM: cpp_table(ranks, settings),
        PAGE: page(root, ranks, settings),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write all files, or name those that differ; exit status 1 if one does."""
    parser = argparse.ArgumentParser(description="Write the tables of variables.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    options = parser.parse_args(arguments)
    files = {options.root / name: content for name, content in written(options.root).items()}
    old = {path for path, content in files.items() if not is_equal(path, content)}
    for path in sorted(old):
        if options.check:
            print(f"{path.relative_to(options.root)} is not that of {TABLE}: run {COMMAND}")
        else:
            path.write_text(files[path], encoding="utf-8")
    return 1 if options.check and old else 0


def is_equal(path: Path, content: str) -> bool:
    """Whether a file has a content."""
    return path.is_file() and path.read_text(encoding="utf-8") == content


if __name__ == "__main__":
    raise SystemExit(main())
