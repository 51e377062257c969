"""What a package exports says what its arguments are; the rest is described in sentences."""

import ast
import importlib
import inspect
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
MODULES = [
    *("tarantella", "tnt_keras", "tnt_keras.callbacks", "tnt_keras.data", "tnt_keras.models"),
    *("tnt_comm", "tnt_comm.testing", "tnt_comm.timeline", "tnt_data"),
]
PACKAGES = ("tarantella", "tnt_comm", "tnt_data", "tnt_keras", "tnt_launch")
OF_ALL_ROOMS = {"tnt_keras.calls.agree:require_same", "tnt_keras.calls.together:together"}
"""Not exported, but called from everywhere, with many arguments."""
SECTION = re.compile(r"^\s*(Args|Returns|Yields|Raises|Attributes):$", re.MULTILINE)


def exported():
    """Functions and classes that modules export, and classes of ours from which these derive."""
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if inspect.isclass(value):
                yield from (cls for cls in value.__mro__ if is_ours(cls))
            elif inspect.isfunction(value) and is_ours(value):
                yield value


def is_ours(value):
    return value.__module__.partition(".")[0] in PACKAGES


EXPORTED = {f"{value.__module__}:{value.__qualname__}": value for value in exported()}


def public_functions():
    """Exported functions and public methods of exported classes, each with its description."""
    for where, value in EXPORTED.items():
        if inspect.isfunction(value):
            yield where, value, inspect.getdoc(value)
            continue
        for name, member in vars(value).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not name.startswith("_"):
                yield f"{where}.{name}", function, f"{inspect.getdoc(function)}\n{value.__doc__}"


def own_arguments(function):
    """Names of what is given, but for those that only the signature of Keras shows."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def is_described(argument, text):
    """Whether a text has a line or a sentence of an argument, or says which function has one."""
    sentence = text.partition("\n")[0]
    refers = re.search(r"`(?:\w+\.)*[a-z_]+`", sentence)
    return refers or re.search(rf"^ +\*{{0,2}}{argument}: |`{argument}\b", text, re.MULTILINE)


def test_exported_functions_say_what_their_arguments_are():
    missing = [
        f"{where}: {argument}"
        for where, function, text in public_functions()
        if not where.startswith("tnt_comm.testing")  # for tests of this repository
        for argument in own_arguments(function)
        if argument not in ("self", "cls") and not is_described(argument, text)
    ]
    assert missing == []


def places_with_sections():
    for file in sorted(ROOT.glob("packages/*/src/*/**/*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts[3:]
        module = ".".join(part for part in parts if part != "__init__")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            for inner in ast.walk(node):
                has_text = isinstance(inner, ast.FunctionDef | ast.ClassDef)
                if has_text and SECTION.search(ast.get_docstring(inner) or ""):
                    yield f"{module}:{node.name}", f"{module}:{inner.name}"


def test_what_is_not_exported_has_no_sections():
    described = OF_ALL_ROOMS | EXPORTED.keys()
    assert [inner for outer, inner in places_with_sections() if outer not in described] == []
