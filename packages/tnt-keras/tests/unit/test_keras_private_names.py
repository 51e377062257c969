"""One module alone knows what Keras does not document, and says so where a version lacks it."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest

import tnt_keras
from tnt_keras.keras_hooks import private
from tnt_keras.process.log import logger

FOLDER = Path(tnt_keras.__file__).parent
PRIVATE = FOLDER / "keras_hooks" / "private.py"
OWN_PREFIX = "_tnt_"  # what this package attaches to objects of Keras
PUBLIC_WITH_UNDERSCORE = frozenset({"_replace", "_asdict", "_fields", "_getframe"})  # of Python
READ_BY_NAME = frozenset({"getattr", "setattr", "hasattr", "delattr", "replaced", "__setattr__"})
READ_BY_NAME |= {"__delattr__", "__getattribute__", "attrgetter", "methodcaller"}


def own_names(sources: list[str]) -> set[str]:
    """The names with an underscore that these sources themselves define, anywhere."""
    names = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if is_self(node.value):
                    names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return {name for name in names if is_private(name)}


def private_names(source: str, own: set[str]) -> set[str]:
    """What a source takes from the inside of others: modules and attributes."""
    found = {name for node in ast.walk(ast.parse(source)) for name in names_in(node, own)}
    return found - PUBLIC_WITH_UNDERSCORE


def names_in(node: ast.AST, own: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if is_inside_keras(alias.name))
    elif isinstance(node, ast.ImportFrom):
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (
            name
            for name, alias in zip(full, node.names, strict=True)
            if is_inside_keras(name)
            or (is_private(alias.name) and not (node.module or "").startswith("tnt_keras"))
        )
    elif isinstance(node, ast.Attribute):
        if is_inside_keras(ast.unparse(node)):
            yield ast.unparse(node)
        elif is_private(node.attr) and not (is_self(node.value) and node.attr in own):
            yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if is_inside_keras(node.value):
            yield node.value
    elif isinstance(node, ast.Call) and called(node) in READ_BY_NAME:
        yield from (
            name
            for argument in node.args
            for name in strings_in(argument)
            if is_private(name) and " " not in name
        )


def strings_in(argument: ast.expr) -> Iterator[str]:
    """The strings that an argument is made of; of an f-string, its begin."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.JoinedStr):
        yield from strings_in(argument.values[0])


def called(node: ast.Call) -> str:
    return getattr(node.func, "id", "") or getattr(node.func, "attr", "")


def is_self(value: ast.expr) -> bool:
    if isinstance(value, ast.Name):
        return value.id in ("self", "cls")
    return isinstance(value, ast.Call) and ast.unparse(value) == "super()"


def is_inside_keras(name: str) -> bool:
    return name == "keras.src" or name.startswith("keras.src.")


def is_private(name: str) -> bool:
    is_dunder = name.startswith("__") and name.endswith("__")
    return (
        name.startswith("_") and not name.startswith(OWN_PREFIX) and not is_dunder and name != "_"
    )


@pytest.mark.parametrize(
    "source",
    [
        "import keras.src",
        "import keras.src.trainers.trainer",
        "from keras.src import backend",
        "from keras import src\nsrc.backend",
        "import keras\nkeras.src.backend",
        "import importlib\nimportlib.import_module('keras.src.backend')",
        "tensor._keras_mask",
        "tensor._keras_mask = None",
        "getattr(tensor, '_keras_mask', None)",
        "getattr(tensor, f'_keras_{name}')",
        "hasattr(model, '_loss_tracker')",
        "object.__setattr__(model, '_loss_tracker', None)",
        "replaced(layer, '_moments', function)",
        "operator.attrgetter('_loss_tracker')(model)",
        "class Mixin:\n    def f(self):\n        return self._loss_tracker",
        "class Mixin:\n    def f(self):\n        return super()._loss_tracker",
        "model.optimizer._backend_update_step",
    ],
)
def test_private_names_are_found(source: str) -> None:
    assert private_names(source, own_names([source]))


@pytest.mark.parametrize(
    "source",
    [
        "class Own:\n    def f(self):\n        self._x = 1\n        return self._x",
        "class Own:\n    def _f(self):\n        return self._f()",
        "object.__setattr__(model, '_tnt_state', None)\nmodel._tnt_state",
        "cls.__dict__\ntype(model).__name__",
        "logger.info('_x of %s', name)",
        "import keras\nkeras.ops.ndim(x)",
    ],
)
def test_own_and_public_names_are_no_private_ones(source: str) -> None:
    assert private_names(source, own_names([source])) == set()


def test_other_modules_touch_nothing_private() -> None:
    sources = {path: path.read_text() for path in FOLDER.rglob("*.py")}
    own = own_names(list(sources.values()))
    found = {
        str(path.relative_to(FOLDER)): private_names(source, own)
        for path, source in sources.items()
        if path != PRIVATE
    }
    assert {name: names for name, names in found.items() if names} == {}
    assert private_names(sources[PRIVATE], own)


def _warnings_of(version: str, missing: list[str]) -> list[str]:
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Collect(logging.WARNING)
    logger.addHandler(handler)
    try:
        private.check(version, missing)
    finally:
        logger.removeHandler(handler)
    return messages


def test_installed_version_is_known_and_has_all_names() -> None:
    private.check_version()
    assert _warnings_of(keras.__version__, private._missing) == []


@pytest.mark.parametrize("version", ["3.8.0", "3.11.3", "3.15.1"])
def test_known_versions_are_used_in_silence(version: str) -> None:
    assert _warnings_of(version, []) == []


def test_newer_version_with_all_names_is_used_with_a_warning() -> None:
    [message] = _warnings_of("3.16.0.dev20270101", [])
    assert "Keras 3.16.0.dev20270101" in message
    assert "3.8 to 3.15" in message


@pytest.mark.parametrize("version", ["3.15.1", "3.16.0"])
def test_version_without_a_name_is_refused_by_that_name(version: str) -> None:
    with pytest.raises(
        ImportError, match=rf"Keras {version} lacks keras\.src\.x\.y.*3\.8 to 3\.15"
    ):
        private.check(version, ["keras.src.x.y"])


@pytest.mark.parametrize("version", ["2.15.0", "3.7.0", "4.0.0"])
def test_versions_out_of_range_are_refused(version: str) -> None:
    with pytest.raises(ImportError, match=r"pip install 'keras>=3\.8,<4'"):
        private.check(version, [])


def test_a_name_that_is_gone_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: list[str] = []
    monkeypatch.setattr(private, "_missing", missing)
    assert private._private("keras.src.layers.layer", "Layer", "_no_such_name") is None
    assert private._private("keras.src.no_such_module", "x") is None
    assert missing == [
        "keras.src.layers.layer.Layer._no_such_name",
        "keras.src.no_such_module.x",
    ]
