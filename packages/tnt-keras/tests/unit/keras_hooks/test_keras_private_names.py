"""Two modules know what Keras and TensorFlow do not document, and say which version lacks it."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import tnt_keras
from tnt_keras.api import model
from tnt_keras.inputs.arguments import InputArguments, check_input
from tnt_keras.keras_hooks import private, private_tensorflow
from tnt_keras.keras_hooks.private_tensorflow import VersionGate
from tnt_keras.process.rank import logger

FOLDER = Path(tnt_keras.__file__).parent
PRIVATE = [FOLDER / "keras_hooks" / name for name in ("private.py", "private_tensorflow.py")]
INTERNAL = ("keras.src", "tensorflow.python", "tensorflow.core", "tensorflow.compiler", "tf.python")
OWN_PREFIX = "_tnt_"  # what this package attaches to objects of Keras
PUBLIC_WITH_UNDERSCORE = frozenset(
    {"_replace", "_asdict", "_fields", "_getframe", "_exit"}
)  # of Python
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
        yield from (alias.name for alias in node.names if is_internal(alias.name))
    elif isinstance(node, ast.ImportFrom):
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (
            name
            for name, alias in zip(full, node.names, strict=True)
            if is_internal(name)
            or (is_private(alias.name) and not (node.module or "").startswith("tnt_keras"))
        )
    elif isinstance(node, ast.Attribute):
        if is_internal(name := ast.unparse(node)):
            yield name
        elif is_private(node.attr) and not (is_self(node.value) and node.attr in own):
            yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if is_internal(node.value):
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


def is_internal(name: str) -> bool:
    return name in INTERNAL or name.startswith(tuple(f"{package}." for package in INTERNAL))


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
        "import tensorflow.python.ops.gen_random_ops",
        "from tensorflow import python",
        "from tensorflow.python.framework import random_seed",
        "from tensorflow.core.framework import graph_pb2",
        "import tensorflow as tf\ntf.python.ops",
        "import importlib\nimportlib.import_module('tensorflow.python.ops')",
        "names = {'tensorflow.python.framework.random_seed': ('get_seed',)}",
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
        "import tensorflow as tf\ntf.raw_ops.ReadVariableOp",
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
        if path not in PRIVATE
    }
    assert {name: names for name, names in found.items() if names} == {}
    assert all(private_names(sources[path], own) for path in PRIVATE)


def _gate(missing: tuple[str, ...] = ()) -> VersionGate:
    gate = VersionGate("Keras", oldest=(3, 8), newest=(3, 15))
    gate.missing.extend(missing)
    return gate


def _warnings_of(gate: VersionGate, version: str) -> list[str]:
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Collect(logging.WARNING)
    logger.addHandler(handler)
    try:
        gate.check(version)
    finally:
        logger.removeHandler(handler)
    return messages


@pytest.mark.parametrize(
    ("module", "package"), [(private, keras), (private_tensorflow, tf)], ids=["keras", "tensorflow"]
)
def test_installed_version_is_known_and_has_all_names(module: Any, package: Any) -> None:
    module.check_version()
    assert module._GATE.missing == []
    assert _warnings_of(module._GATE, package.__version__) == []


@pytest.mark.parametrize("version", ["3.8.0", "3.11.3", "3.15.1"])
def test_known_versions_are_used_in_silence(version: str) -> None:
    assert _warnings_of(_gate(), version) == []


def test_newer_version_with_all_names_is_used_with_a_warning() -> None:
    [message] = _warnings_of(_gate(), "3.16.0.dev20270101")
    assert "Keras 3.16.0.dev20270101" in message
    assert "3.8 to 3.15" in message


@pytest.mark.parametrize("version", ["3.15.1", "3.16.0"])
def test_version_without_a_name_is_refused_by_that_name(version: str) -> None:
    with pytest.raises(
        ImportError, match=rf"Keras {version} lacks keras\.src\.x\.y.*3\.8 to 3\.15"
    ):
        _gate(("keras.src.x.y",)).check(version)


@pytest.mark.parametrize("version", ["2.15.0", "3.7.0", "4.0.0"])
def test_versions_out_of_range_are_refused(version: str) -> None:
    with pytest.raises(ImportError, match=r"pip install 'keras>=3\.8,<3\.16'"):
        _gate().check(version)


def test_a_name_that_is_gone_is_remembered() -> None:
    gate = _gate()
    assert gate.find("keras.src.layers.layer", "Layer", "_no_such_name") is None
    assert gate.find("keras.src.no_such_module", "x") is None
    assert gate.missing == [
        "keras.src.layers.layer.Layer._no_such_name",
        "keras.src.no_such_module.x",
    ]


@pytest.mark.parametrize("version", ["2.17.1", "3.0.0"])
def test_versions_of_tensorflow_out_of_range_are_refused(version: str) -> None:
    with pytest.raises(ImportError, match=r"TensorFlow .*pip install 'tensorflow>=2\.18,<2\.22'"):
        private_tensorflow._GATE.check(version)


@pytest.mark.thorough  # the warning is in test_rebuild of tnt-data, the gate above
def test_a_newer_tensorflow_gets_one_warning_which_says_what_becomes_of_datasets() -> None:
    program = """
import tensorflow as tf
tf.__version__ = "2.22.0"
import keras, numpy as np, tnt_keras
from tnt_keras.keras_hooks import private_tensorflow

model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
model.compile("sgd", "mse")
private_tensorflow.check_version()
model.fit(np.zeros((4, 2)), np.zeros((4, 1)), batch_size=2, verbose=0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    [line] = [line for line in done.stderr.splitlines() if "] WARNING tnt_" in line]
    assert "2.22.0" in line
    assert "give them seeds" in line


@pytest.fixture
def tensorflow_without_a_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(private_tensorflow._GATE, "missing", ["tensorflow.python.x.y"])
    private_tensorflow.check_version.cache_clear()
    yield
    private_tensorflow.check_version.cache_clear()


@pytest.mark.usefixtures("tensorflow_without_a_name")
def test_a_name_that_tensorflow_lacks_is_told_with_versions_of_tensorflow() -> None:
    text = r"TensorFlow \S+ lacks tensorflow\.python\.x\.y, .*with TensorFlow 2\.18 to 2\.21"
    with pytest.raises(ImportError, match=text):
        private_tensorflow.check_version()
    private.check_version()


@pytest.mark.usefixtures("tensorflow_without_a_name")
def test_a_model_needs_private_names_of_tensorflow_in_partitioned_steps_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tnt_keras.Model(keras.Sequential())
    monkeypatch.setattr(model, "is_partitioned", lambda: True)
    with pytest.raises(ImportError, match="TensorFlow"):
        tnt_keras.Model(keras.Sequential())


def test_the_seed_of_functions_without_one_is_known_once_there_is_one() -> None:
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    assert not private.has_global_seed()
    keras.random.normal((2,))
    assert private.has_global_seed()
    state = private.global_seed()
    before = int(state.value.numpy()[1])
    keras.random.normal((2,))
    assert int(state.value.numpy()[1]) > before


def test_a_new_kind_of_input_of_keras_is_noticed() -> None:
    unknown = private.kinds_of_input_in_keras() - private.KINDS_OF_INPUT
    assert not unknown, f"Keras takes other data now: find out who reads them, for {unknown}"


def test_data_that_only_keras_knows_are_refused() -> None:
    class NewKind:
        """Something that this package has not heard of."""

    with pytest.raises(TypeError, match=r"`x` must be a `tf.data.Dataset`.*Received: NewKind"):
        check_input(InputArguments(NewKind()))
