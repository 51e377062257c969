"""Files of a distributed model: those of the plain Keras model, written once."""

from __future__ import annotations

import os
from typing import Any

import keras

from tnt_keras.calls.collective_call import collective_call
from tnt_keras.calls.files import read_from_master, write_atomically
from tnt_keras.keras_hooks.class_swap import MixinBase, signature_of
from tnt_keras.step.accumulation import settle
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

        The master rank writes, to another name first, so that the file is whole or absent; all
        ranks wait for it.

        Args:
            filepath: As in Keras.
            overwrite: Whether an existing file is replaced; never asks.
            zipped: As in Keras.
            tnt_save_all_devices: Whether every rank writes, to disks of their own.
            **kwargs: As in Keras.

        Raises:
            FileExistsError: On all ranks, if the file exists and `overwrite` is False.
            OSError: On all ranks, if the file cannot be written.
        """
        settle(self._tnt_owner.optimizers)
        write_atomically(
            filepath,
            lambda path: keras.Model.save(self, path, zipped=zipped, **kwargs),
            overwrite=overwrite,
            on_all_ranks=tnt_save_all_devices,
        )

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
        settle(self._tnt_owner.optimizers)
        write_atomically(
            filepath,
            lambda path: keras.Model.save_weights(self, path, **kwargs),
            overwrite=overwrite,
            on_all_ranks=tnt_save_all_devices,
        )

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

        Ranks that do not see the file get its bytes from the master. It returns when all ranks have
        read the file, so that any of them may remove it then.

        Args:
            filepath: As in Keras; what it is on the master rank counts.
            *args: As in Keras.
            **kwargs: As in Keras.

        Raises:
            FileNotFoundError: On all ranks, if the master does not see the file.
            OSError: On all ranks, if a rank cannot read the file; says which and why.
            ValueError: Likewise, if the weights do not fit to the model.
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
