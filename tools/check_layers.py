"""Fail on an import or include that goes against the arrows between packages and C++ layers.

The two tables are the architecture: a package may import what its row names, besides the standard
library and itself; a C++ layer may include what its row names, besides itself. Imports inside
functions count, so that an arrow cannot be hidden. A new package or layer needs a row.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

IMPORTS: dict[str, set[str]] = {
    "tnt_comm": {"numpy", "ml_dtypes"},
    "tnt_data": {"numpy", "tensorflow"},
    "tnt_keras": {"tnt_comm", "tnt_data", "numpy", "ml_dtypes", "tensorflow", "keras"},
    "tnt_launch": set(),
    "tarantella": {"tnt_comm", "tnt_data", "tnt_keras", "tnt_launch"},
}

INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "trace": {"base"},
    "transport": {"base"},
    "kernel": {"base"},
    "engine": {"base"},  # advances operations: it knows no algorithm and no network
    "algorithm": {"base", "trace", "transport", "kernel", "engine"},
    "group": {"base", "trace", "transport", "engine", "algorithm"},
    "fusion": {"base", "trace", "kernel", "algorithm", "group"},
    "capi": {"base", "group", "fusion"},
    "bindings": {"base", "trace", "group", "fusion", "capi"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]tnt/comm/(\w+)/', re.MULTILINE)


def imported_modules(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every absolute import of a Python source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.split(".")[0]


def check_imports(root: Path) -> Iterator[str]:
    """One sentence for every import that the table does not allow."""
    for package in sorted(root.glob("packages/*/src/[a-z]*/")):
        if package.name not in IMPORTS:
            yield f"{package.relative_to(root)}: no row for this package in tools/check_layers.py"
            continue
        allowed = IMPORTS[package.name] | {package.name} | sys.stdlib_module_names
        for path in sorted(package.rglob("*.py")):
            for line, module in imported_modules(path.read_text(encoding="utf-8")):
                if module not in allowed:
                    where = f"{path.relative_to(root)}:{line}"
                    yield f"{where}: {package.name} must not import {module}"


def layer_of(path: Path) -> str:
    """The C++ layer of a file: its folder below `tnt/comm`, or else below `cpp`."""
    parts = path.parts[path.parts.index("cpp") + 1 :]
    return parts[2] if parts[:2] == ("tnt", "comm") else parts[0]


def check_includes(root: Path) -> Iterator[str]:
    """One sentence for every C++ include that the table does not allow."""
    for path in sorted(root.glob("packages/tnt-comm/cpp/**/*")):
        if path.suffix not in (".h", ".hpp", ".cpp") or layer_of(path) in ("tests", "bench"):
            continue
        where, layer = path.relative_to(root), layer_of(path)
        if layer not in INCLUDES:
            yield f"{where}: no row for layer {layer!r} in tools/check_layers.py"
            continue
        for included in sorted(set(INCLUDE.findall(path.read_text(encoding="utf-8")))):
            if included not in INCLUDES[layer] | {layer}:
                yield f"{where}: layer {layer} must not include layer {included}"


def main(arguments: list[str] | None = None) -> int:
    """Print every violation; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check the arrows between packages and layers.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args(arguments).root
    violations = [*check_imports(root), *check_includes(root)]
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
