"""Files of plain models that a step function trains: whole, though every rank writes them.

`save` of a plain model knows of no other rank: each puts a file with the same contents there at
once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras

from tnt_keras.api.save import Saving
from tnt_keras.calls.files import write_here
from tnt_keras.keras_hooks.class_swap import MixinBase, add_mixin, has_keras_methods, signature_of
from tnt_keras.keras_hooks.patch import replaced


class WholeFiles(MixinBase):
    """Mixin for a plain Keras model: no rank finds half a file of another one."""

    @signature_of(keras.Model.save)
    def save(
        self, filepath: str | os.PathLike[str], overwrite: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """Write the model as `keras.Model.save` does, whole or not at all. Local."""
        save = super().save
        _write(filepath, overwrite, lambda path: save(path, overwrite, *args, **kwargs))

    @signature_of(keras.Model.save_weights)
    def save_weights(
        self, filepath: str | os.PathLike[str], overwrite: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """Write the weights as `keras.Model.save_weights` does, whole or not at all. Local."""
        save_weights = super().save_weights
        _write(filepath, overwrite, lambda path: save_weights(path, overwrite, *args, **kwargs))


def make_files_whole(objects: Iterable[Any]) -> None:
    """Let plain models write whole files, unless they save in a way of their own. Local."""
    for each in objects:
        if (
            isinstance(each, keras.Model)
            and not isinstance(each, Saving)
            and has_keras_methods(each, "save", "save_weights")
        ):
            add_mixin(each, WholeFiles)


def _write(
    filepath: str | os.PathLike[str], overwrite: bool, write_to: Callable[[Any], None]
) -> None:
    if not overwrite or "://" in os.fspath(filepath):  # Keras asks; or a store that it knows
        write_to(filepath)
    else:
        write_here(pathlib.Path(filepath), write_to, overwrite=True, makes_folders=False)


class UsedLayers:
    """The layers, outermost ones only, that are called in a with-block, in order of first calls."""

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self._depth = 0

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Note what is called in a with-block. Local."""
        with replaced(keras.Layer, "__call__", self._noting(keras.Layer.__call__)):
            yield

    def _noting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(used: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0 and not any(used is known for known in self.layers):
                self.layers.append(used)
            self._depth += 1
            try:
                return plain(used, *args, **kwargs)
            finally:
                self._depth -= 1

        return call
