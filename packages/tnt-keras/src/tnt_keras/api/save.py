"""Files of distributed models, written once, and of plain ones that a step function trains."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras

from tnt_keras.calls.files import read_from_master, write_atomically, write_here
from tnt_keras.calls.together import collective_call
from tnt_keras.keras_hooks.patch import MixinBase, add_mixin, replaced, signature_of
from tnt_keras.keras_hooks.private import has_keras_methods
from tnt_keras.step.accumulation import reduce_accumulated
from tnt_keras.step.owner import StepOwner


class Saving(MixinBase):
    """Mixin for a Keras model: reads and writes files that know nothing of Tarantella."""

    _tnt_owner: StepOwner

    @signature_of(keras.Model.save, tnt_save_all_devices=False)
    @collective_call("save", is_local_alone=True)
    def save(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        zipped: bool | None = None,
        *,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """Write the model as a plain Keras model, with the optimizer's state. Collective.

        The master rank writes, to another name first, so the file is either whole or absent; all
        ranks wait for it.

        Args:
            filepath: As in Keras.
            overwrite: Whether an existing file is replaced; never asks.
            zipped: As in Keras.
            tnt_save_all_devices: Whether every rank writes, to its own disk.
            **kwargs: As in Keras.

        Raises:
            FileExistsError: On all ranks, if the file exists and `overwrite` is False.
            OSError: On all ranks, if the file cannot be written.
        """
        reduce_accumulated(self._tnt_owner.optimizers)
        save = functools.partial(keras.Model.save, self, zipped=zipped, **kwargs)
        write_atomically(filepath, save, overwrite=overwrite, on_all_ranks=tnt_save_all_devices)

    @signature_of(keras.Model.save_weights, tnt_save_all_devices=False)
    @collective_call("save_weights", is_local_alone=True)
    def save_weights(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        *,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """Write the weights. Collective.

        Args:
            filepath: As in Keras.
            overwrite: As for `save`.
            tnt_save_all_devices: As for `save`.
            **kwargs: As in Keras.

        Raises:
            FileExistsError: As `save` does.
            OSError: As `save` does.
        """
        reduce_accumulated(self._tnt_owner.optimizers)
        save = functools.partial(keras.Model.save_weights, self, **kwargs)
        write_atomically(filepath, save, overwrite=overwrite, on_all_ranks=tnt_save_all_devices)

    @signature_of(keras.Model.export, tnt_save_all_devices=False)
    @collective_call("export", is_local_alone=True)
    def export(
        self,
        filepath: str | os.PathLike[str],
        *args: Any,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """Export the model as `keras.Model.export` does, written once like `save`. Collective.

        Args:
            filepath: As in Keras; what is there is replaced.
            *args: As in Keras.
            tnt_save_all_devices: As for `save`.
            **kwargs: As in Keras.

        Raises:
            OSError: As `save` does.
        """
        write_atomically(
            filepath,
            lambda path: keras.Model.export(self, path, *args, **kwargs),
            overwrite=True,
            on_all_ranks=tnt_save_all_devices,
            makes_folders=True,
        )

    @signature_of(keras.Model.load_weights)
    @collective_call("load_weights")
    def load_weights(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Read weights that the master rank sees, as `keras.Model.load_weights` does. Collective.

        Ranks that cannot see the file get its bytes from the master. It returns when all ranks have
        read the file, so any of them may then remove it.

        Args:
            filepath: As in Keras; the file that the master rank sees counts.
            *args: As in Keras.
            **kwargs: As in Keras.

        Raises:
            FileNotFoundError: On all ranks, if the master cannot see the file.
            OSError: On all ranks, if a rank cannot read the file; says which and why.
            ValueError: Likewise, if the weights do not fit the model.
        """
        self._tnt_owner.is_synchronized = False
        load = super().load_weights
        read_from_master(filepath, lambda path: load(path, *args, **kwargs))

    def set_weights(self, weights: list[Any]) -> None:
        """Set the weights of this rank, as `keras.Model.set_weights` does. Local.

        The next step that all ranks take begins with the weights of the master rank.

        Args:
            weights: As in Keras.
        """
        self._tnt_owner.is_synchronized = False
        super().set_weights(weights)


def _whole(write: Callable[..., None]) -> Callable[..., None]:
    """Return a method of Keras that writes a file whole or not at all."""

    @functools.wraps(write)
    def write_whole(
        self: Any, filepath: Any, overwrite: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        def write_to(path: Any) -> None:
            write(self, path, overwrite, *args, **kwargs)

        if not overwrite or "://" in os.fspath(filepath):  # Keras asks; or a store that it knows
            write_to(filepath)
        else:
            write_here(pathlib.Path(filepath), write_to, overwrite=True, makes_folders=False)

    return write_whole


class WholeFiles(MixinBase):
    """Mixin for a plain Keras model: no rank finds half a file of another one."""

    save = _whole(keras.Model.save)
    save_weights = _whole(keras.Model.save_weights)


def make_files_whole(objects: Iterable[Any]) -> None:
    """Let plain models write whole files, unless they save in a way of their own. Local."""
    for each in objects:
        if (
            isinstance(each, keras.Model)
            and not isinstance(each, Saving)
            and has_keras_methods(each, "save", "save_weights")
        ):
            add_mixin(each, WholeFiles)


@contextlib.contextmanager
def noted_layers(layers: list[Any]) -> Iterator[None]:
    """Add to a list the layers, outermost ones only, that are called in a with-block. Local."""
    plain, depth = keras.Layer.__call__, 0

    @functools.wraps(plain)
    def call(used: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth == 0 and not any(used is known for known in layers):
            layers.append(used)
        depth += 1
        try:
            return plain(used, *args, **kwargs)
        finally:
            depth -= 1

    with replaced(keras.Layer, "__call__", call):
        yield
