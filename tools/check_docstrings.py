"""Fail when a public name has no docstring.

Public is what stands in the `__all__` of a package or module, and the public methods and properties
of such classes. The sources are read, never imported: the check needs neither TensorFlow nor a
compiled extension. A name that cannot be traced to a definition (a constant, or one that a compiled
module defines) must at least be assigned or imported.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def parse(path: Path) -> ast.Module:
    """The syntax tree of one source file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def public_names(module: ast.Module) -> list[str]:
    """The strings of every `__all__ = [...]` or `__all__ += [...]` of a module."""
    names: list[str] = []
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            constants = [leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)]
            names += [value for value in constants if isinstance(value, str)]
    return names


def origins(module: ast.Module, folder: Path) -> dict[str, tuple[Path, str]]:
    """Names that a module in `folder` imports from its own package: name -> (file, name there)."""
    found: dict[str, tuple[Path, str]] = {}
    for node in ast.walk(module):
        base = import_path(node, folder) if isinstance(node, ast.ImportFrom) else None
        if base is not None and isinstance(node, ast.ImportFrom):
            file = base.with_suffix(".py")
            file = file if file.is_file() else base / "__init__.py"
            found |= {alias.asname or alias.name: (file, alias.name) for alias in node.names}
    return found


def import_path(node: ast.ImportFrom, folder: Path) -> Path | None:
    """Path, without suffix, that an import from the own package refers to; None for others."""
    parts = node.module.split(".") if node.module else []
    if node.level:
        return [folder, *folder.parents][node.level - 1].joinpath(*parts)
    source = next((parent for parent in folder.parents if parent.name == "src"), None)
    if source is not None and (source / parts[0]).is_dir():
        return source.joinpath(*parts)
    return None


def find_definition(name: str, path: Path) -> tuple[Path, Definition] | None:
    """Follow imports inside the package from `path` to the class or function called `name`."""
    for _ in range(8):  # re-exports of re-exports are followed, cycles are not
        if not path.is_file():
            return None
        module = parse(path)
        for node in module.body:
            if isinstance(node, Definition) and node.name == name:
                return path, node
        origin = origins(module, path.parent).get(name)
        if origin is None:
            return None
        path, name = origin
    return None


def undocumented(definition: Definition) -> Iterator[str]:
    """The definition's name and those of its public members, as far as they lack a docstring."""
    if ast.get_docstring(definition) is None:
        yield definition.name
    methods = [m for m in definition.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
    for method in methods if isinstance(definition, ast.ClassDef) else []:
        if is_public(method) and ast.get_docstring(method) is None:
            yield f"{definition.name}.{method.name}"


def is_public(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method needs words of its own: not private, and no overload, setter, override."""
    decorators = {
        node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        for node in method.decorator_list
    }
    return not method.name.startswith("_") and not decorators & {"overload", "setter", "override"}


def check_package(root: Path, package: Path) -> Iterator[str]:
    """One sentence for every public name of one package that has no docstring."""
    for path in sorted(package.rglob("*.py")):
        module = parse(path)
        if ast.get_docstring(module) is None:
            yield f"{path.relative_to(root)}: the module has no docstring"
        for name in public_names(module):
            found = find_definition(name, path)
            if found is not None:
                for missing in undocumented(found[1]):
                    where = f"{found[0].relative_to(root)}:{found[1].lineno}"
                    yield f"{where}: public name {missing} has no docstring"


def main(arguments: list[str] | None = None) -> int:
    """Print every public name without a docstring; exit status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check that public names have docstrings.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args(arguments).root
    packages = sorted(root.glob("packages/*/src/[a-z]*/"))
    missing = [
        *dict.fromkeys(line for package in packages for line in check_package(root, package))
    ]
    for line in missing:
        print(line)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
