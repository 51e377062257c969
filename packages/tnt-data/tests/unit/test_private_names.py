"""One small module alone knows what TensorFlow does not document."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tnt_data

FOLDER = Path(tnt_data.__file__).parent
PRIVATE = FOLDER / "tensorflow_private.py"
PUBLIC_WITH_UNDERSCORE = frozenset({"_replace"})  # of named tuples
OWN = frozenset({"_tnt_data_results"})  # an attribute that this package adds to a dataset


def private_names(source: str) -> set[str]:
    """What a module takes from the inside of other things: modules, attributes, classes."""
    nodes = list(ast.walk(ast.parse(source)))
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    names = {name for node in nodes if node not in parts for name in names_in(node)}
    return names - PUBLIC_WITH_UNDERSCORE - OWN


def names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if is_inside_tensorflow(alias.name))
    elif isinstance(node, ast.ImportFrom):
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from filter(is_inside_tensorflow, full)
    elif isinstance(node, ast.Attribute):
        of_own_object = isinstance(node.value, ast.Name) and node.value.id == "self"
        if is_private(node.attr) and not of_own_object:
            yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if is_private(node.value) and node.value.isidentifier():
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        first = node.values[0]
        if isinstance(first, ast.Constant) and is_private(str(first.value)):
            yield ast.unparse(node)


def is_inside_tensorflow(module: str) -> bool:
    return module.startswith(("tensorflow.python", "tensorflow.core", "tensorflow.compiler"))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize(
    "source",
    [
        "from tensorflow.python.data.ops import dataset_ops",
        "import tensorflow.python.data.util.nest",
        "from tensorflow import python\npython.data._x",
        "dataset._input_dataset = other",
        "type(dataset).__name__ == '_MapDataset'",
        "getattr(dataset, '_map_func', None)",
        "getattr(dataset, f'_{name}')",
        "hasattr(dataset, '_map_func')",
        "dataset.argument('_map_func')",
        "NAMES = ['_map_func', '_seed2']",
        "attributes = {'_seed': 3}",
        "dataset.__dict__['_seed'] = 3",
        "setattr(dataset, '_' + name, 3)",
    ],
)
def test_private_names_are_found(source: str) -> None:
    assert private_names(source)


def test_other_modules_touch_nothing_private() -> None:
    others = [path for path in FOLDER.rglob("*.py") if path != PRIVATE]
    found = {path.name: private_names(path.read_text()) for path in others}
    assert {name: names for name, names in found.items() if names} == {}
    assert private_names(PRIVATE.read_text())


def test_unknown_release_is_used_without_private_imports() -> None:
    program = """
import builtins
import tensorflow as tf

real_import = builtins.__import__

def without_private_modules(name, globals=None, *others):
    importer = (globals or {}).get("__name__", "")
    if importer.startswith("tnt_data") and name.startswith("tensorflow.python"):
        raise ImportError(name)
    return real_import(name, globals, *others)

builtins.__import__ = without_private_modules
tf.__version__ = "3.0.0"
import tnt_data

dataset = tf.data.Dataset.range(7).map(lambda x: 10 * x).batch(4)
print([one.data.numpy().tolist() for one in tnt_data.distribute(dataset, 1, 2)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[10, 30], [50]]"
    assert done.stderr.count("does not know the transformations of TensorFlow 3.0.0") == 1
