"""The public names of a package and what a caller writes for them, read without importing it."""

# Types are left out: a better one is no other interface. So are private bases, whose methods count
# as those of the class.

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ALSO_PUBLIC = (
    "tnt_comm.testing",
    "tnt_launch.errors.LaunchError",
    "tnt_launch.errors.RankFailedError",
    "tnt_launch.function.launch.launch",
)
"""What the package itself does not export, but its documentation, or another package, does."""

_CALLS = ("call", "enter", "exit", "init", "new")
_OPERATORS = ("add", "and", "array", "bool", "eq", "lt", "mul", "or", "sub")
_ELEMENTS = ("contains", "getitem", "iter", "len", "next")
SPECIAL = {f"__{name}__" for name in (*_CALLS, *_OPERATORS, *_ELEMENTS)}
"""Methods whose signatures are public though nobody writes their names."""

HOW_CALLED = ("async", "classmethod", "contextmanager", "staticmethod")
"""What is not among the parameters of a function and counts for its callers."""


def names_of(package: str, folder: Path) -> dict[str, str]:
    """Return signatures, or kinds, by public names of the package in a folder of sources."""
    loader = griffe.GriffeLoader(search_paths=[folder], allow_inspection=False)
    root = loader.load(package, try_relative_path=False)
    loader.resolve_aliases(implicit=True, external=False)
    names = _Names(package)
    names.add(package, root)
    for path in ALSO_PUBLIC:
        if path.startswith(f"{package}."):
            with contextlib.suppress(KeyError):  # trees of tests have less
                names.add(path, root.modules_collection[path])
    return dict(sorted(names.described()))


class _Names:
    """Objects by their public names; one with several names is described under the first."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._objects: dict[str, Any] = {}  # or the path of what another package defines
        self._first_name: dict[str, str] = {}  # by the path of what is defined

    def add(self, name: str, found: Any) -> None:
        """Add an object, with all that it exports if it is a module."""
        self._add(name, found)
        added = [(name, found)]
        for outer, module in added:  # which grows: names with few dots come first
            if isinstance(module, str) or not module.is_module:
                continue
            for exported in exports_of(module):
                inner = self._find(module, exported)
                if self._add(f"{outer}.{exported}", inner):
                    added.append((f"{outer}.{exported}", inner))

    def _find(self, module: Any, name: str) -> Any:
        """Return what a name of a module is; an import counts more than a module of that name."""
        path = module.imports.get(name, f"{module.path}.{name}")
        if path.split(".")[0] != self._package:
            return path
        collection = module.modules_collection
        try:
            found = collection[path]
        except KeyError:  # imported from a module that imports it, too, or known to `__getattr__`
            outer, _, inner = path.rpartition(".")
            return self._find(collection[outer], inner) if outer != module.path else path
        return found.final_target if found.is_alias else found

    def _add(self, name: str, found: Any) -> bool:
        """Note a name; return whether it is the first one of its object."""
        self._objects[name] = found
        return self._first_name.setdefault(_path(found), name) == name

    def described(self) -> Iterator[tuple[str, str]]:
        """Yield names with what they are; those of methods and attributes stand with a class."""
        for name, found in self._objects.items():
            path = _path(found)
            first = self._first_name[path]
            if first != name:
                yield name, f"is {first}"
            elif not isinstance(found, str):
                yield from self._describe(name, found)
            else:
                yield name, "attribute" if path == name else f"is {path}"

    def _describe(self, name: str, found: Any) -> Iterator[tuple[str, str]]:
        if found.is_function:
            yield name, signature_of(found)
        elif not found.is_class:
            yield name, "module" if found.is_module else f"attribute{value_of(found)}"
        else:
            yield name, f"class({', '.join(self._bases(found))}){fields_of(found)}"
            for inner, member in found.all_members.items():
                if inner in SPECIAL or not inner.startswith("_"):
                    definition = member.final_target if member.is_alias else member
                    yield from self._describe(f"{name}.{inner}", definition)

    def _bases(self, found: Any) -> Iterator[str]:
        for base in found.bases:
            path = base if isinstance(base, str) else base.canonical_path
            if not path.startswith(f"{self._package}."):
                yield path
                continue
            definition = found.modules_collection[path]
            definition = definition.final_target if definition.is_alias else definition
            public = self._first_name.get(definition.path)
            if public is not None:
                yield public
            elif definition.is_class:
                yield from self._bases(definition)


def value_of(attribute: Any) -> str:
    """Return what a constant is, as ` = 2`; nothing if that is not written as a literal."""
    text = str(attribute.value)
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ""
    return "" if attribute.value is None else f" = {text}"


def fields_of(found: Any) -> str:
    """Return the fields of a named tuple, with defaults; nothing of another class."""
    if not any(str(base).endswith("NamedTuple") for base in found.bases):
        return ""
    fields = [f"{n}{value_of(one)}" for n, one in found.members.items() if one.is_attribute]
    return f" of {', '.join(fields)}"


def _path(found: Any) -> str:
    return found if isinstance(found, str) else str(found.path)


def exports_of(module: Any) -> list[str]:
    """Return what a module exports: its `__all__`, or `import x as x`, or what it defines."""
    if module.exports:
        return [str(name) for name in module.exports]
    tree = ast.parse(module.filepath.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [one.name for node in imports for one in node.names if one.name == one.asname]
    return names or [
        name
        for name, found in module.members.items()
        if not name.startswith("_") and not found.is_alias and not found.is_module
    ]


def signature_of(function: Any) -> str:
    """Return the parameters with their defaults, as Python writes them, behind how it is called."""
    decorators = {one.callable_path.rpartition(".")[2] for one in function.decorators}
    labels = {*function.labels, *decorators}
    how = "".join(f"{label} " for label in HOW_CALLED if label in labels)
    words, kinds = [], griffe.ParameterKind
    parameters = list(function.parameters)
    for index, one in enumerate(parameters):
        following = parameters[index + 1].kind if index + 1 < len(parameters) else None
        stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(one.kind, "")
        has_star = kinds.var_positional in [each.kind for each in parameters[:index]]
        if one.kind is kinds.keyword_only and not has_star and "*" not in words:
            words.append("*")
        default = "" if stars or one.default is None else f"={one.default}"
        words.append(f"{stars}{one.name}{default}")
        if one.kind is kinds.positional_only and following is not one.kind:
            words.append("/")
    return f"{how}({', '.join(words)})"
