"""Count what a reader of a package must know: classes that another room imports than their own.

    python tools/count_concepts.py tnt-keras tnt-launch      without a name: all packages

A room is a sub-package, or a module beside them. The `__init__.py` of the package shows classes to
users and counts as no room. Each class is listed with the rooms that import it; the number of
source files and their lines stand above.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Module:
    """A source file."""

    name: str  # as it is imported
    tree: ast.Module
    num_lines: int

    @property
    def room(self) -> str:
        """The part of the name below that of the package, empty for the package itself."""
        return ".".join(self.name.split(".")[1:2])

    @property
    def classes(self) -> set[str]:
        """The names of the classes that it defines."""
        return {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}


def read_modules(sources: Path) -> dict[str, Module]:
    """Return the modules below a folder, by their names."""
    modules = {}
    for path in sorted(sources.rglob("*.py")):
        parts = path.relative_to(sources).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, ast.parse(text), len(text.splitlines()))
    return modules


def used_classes(module: Module, modules: dict[str, Module]) -> Iterator[str]:
    """Yield the full names of the classes of other modules that a module imports."""
    aliases = {}  # names that stand for modules
    nodes = list(ast.walk(module.tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            source = modules.get(node.module)
            for alias in node.names:
                full_name = f"{node.module}.{alias.name}"
                if full_name in modules:
                    aliases[alias.asname or alias.name] = modules[full_name]
                elif source is not None and alias.name in source.classes:
                    yield full_name
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            source = aliases.get(node.value.id)
            if source is not None and node.attr in source.classes:
                yield f"{source.name}.{node.attr}"


def shared_classes(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return the classes that other rooms import, each with these rooms."""
    users: dict[str, set[str]] = {}
    for module in modules.values():
        for name in used_classes(module, modules) if module.room else ():
            if name.split(".")[1] != module.room:
                users.setdefault(name, set()).add(module.room)
    return users


def report(package: str, modules: dict[str, Module]) -> Iterator[str]:
    """Yield the lines about a package."""
    users = shared_classes(modules)
    num_lines = sum(module.num_lines for module in modules.values())
    yield f"{package}: {len(users)} concepts, {len(modules)} files, {num_lines} lines"
    yield from (f"  {name}: {', '.join(sorted(rooms))}" for name, rooms in sorted(users.items()))


def main(arguments: Iterable[str] | None = None) -> int:
    """Print the report of every named package."""
    names = sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))
    parser = argparse.ArgumentParser(description="Count classes that cross rooms.")
    parser.add_argument("packages", nargs="*", default=names, help="names of folders in packages/")
    options = parser.parse_args(None if arguments is None else list(arguments))
    for package in options.packages:
        for line in report(package, read_modules(ROOT / "packages" / package / "src")):
            print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
