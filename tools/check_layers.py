"""Fail on an include that goes against the arrows between the layers of C++."""

# The table is the architecture: a layer may include what its row names, besides itself. A new layer
# needs a row. The arrows between Python's packages and rooms stand in pyproject.toml.

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "trace": {"base"},
    "transport": {"base"},
    "kernel": {"base"},
    "device": {"base", "kernel"},  # GPUs: it knows no ranks
    "progress": {"base"},  # advances operations: it knows no algorithm and no network
    "collective": {"base", "trace", "transport", "kernel", "device", "progress"},
    "communicator": {"base", "trace", "transport", "device", "progress", "collective"},
    "reducer": {"base", "trace", "kernel", "collective", "communicator"},
    "capi": {"base", "communicator", "reducer"},
    "bindings": {"base", "trace", "communicator", "reducer", "capi"},
}

# Likewise the folders inside of `transport`: another engine is a folder beside `gpi2`.
TRANSPORTS: dict[str, set[str]] = {
    "transport": set(),
    "transport/local": {"transport"},
    "transport/shm": {"transport", "transport/local"},
    "transport/rma": {"transport", "transport/local"},
    "transport/rma/gpi2": {"transport", "transport/rma"},
    "transport/rma/bootstrap": {"transport/rma"},
    "transport/rma/ucx": {"transport", "transport/rma", "transport/rma/bootstrap"},
    "transport/hierarchical": {
        "transport",
        "transport/local",
        "transport/shm",
        "transport/rma",
        "transport/rma/gpi2",
        "transport/rma/bootstrap",
        "transport/rma/ucx",
    },
}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]tnt/comm/([\w/]+)/\w+\.h', re.MULTILINE)


def layer_of(path: Path) -> str:
    """Return the C++ layer of a file below `cpp`: its folder in `tnt/comm`, or else the first."""
    parts = path.parts
    return parts[2] if parts[:2] == ("tnt", "comm") else parts[0]


def check_includes(root: Path) -> Iterator[str]:
    """Yield one sentence for every C++ include that the table does not allow."""
    sources = root / "packages/tnt-comm/cpp"
    for path in sorted(sources.glob("**/*")):
        if path.suffix not in (".h", ".hpp", ".cpp"):
            continue
        where, layer = path.relative_to(root), layer_of(path.relative_to(sources))
        if layer in ("tests", "bench"):
            continue
        if layer not in INCLUDES:
            yield f"{where}: no row for layer {layer!r} in tools/check_layers.py"
            continue
        folders = sorted(set(INCLUDE.findall(path.read_text(encoding="utf-8"))))
        for included in sorted({folder.split("/")[0] for folder in folders}):
            if included not in INCLUDES[layer] | {layer}:
                yield f"{where}: layer {layer} must not include layer {included}"
        if layer == "transport":
            yield from check_transport(where, path.relative_to(sources / "tnt/comm"), folders)


def check_transport(where: Path, path: Path, folders: list[str]) -> Iterator[str]:
    """Yield one sentence for every include of a folder of `transport` that its table forbids."""
    own = path.parent.as_posix()
    if own not in TRANSPORTS:
        yield f"{where}: no row for folder {own!r} in tools/check_layers.py"
        return
    for folder in folders:
        if folder in TRANSPORTS and folder not in TRANSPORTS[own] | {own}:
            yield f"{where}: {own} must not include {folder}"


def main(arguments: list[str] | None = None) -> int:
    """Print every violation; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check the arrows between layers of C++.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args(arguments).root
    violations = list(check_includes(root))
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
