"""Files of a distributed model: those of the plain Keras model, written once."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.keras_hooks.class_swap import without_mixins
from tnt_keras.model.atomic_write import write
from tnt_keras.step.model_steps import StepCommunication

# For type checkers: the methods that `super()` finds are those of the Keras class beside it.
_Base: Any = object


class PlainFiles(_Base):
    """Mixin for a Keras model: reads and writes files that know nothing of Tarantella."""

    _tnt_communication: StepCommunication
    _tnt_synchronized: bool

    @collective_call("save")
    def save(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        zipped: bool | None = None,
        *,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """Writes the model as a plain Keras model, with the optimizer's state. Collective.

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

        def write_to(path: pathlib.Path) -> None:
            with self._as_plain_keras():
                self.save(path, zipped=zipped, **kwargs)

        write(filepath, write_to, overwrite=overwrite, on_all_ranks=tnt_save_all_devices)

    @collective_call("save_weights")
    def save_weights(
        self,
        filepath: str | os.PathLike[str],
        overwrite: bool = True,
        *,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """Writes the weights. Collective.

        Args:
            filepath: As in Keras.
            overwrite: As for `save`.
            tnt_save_all_devices: As for `save`.
            **kwargs: As in Keras.

        Raises:
            FileExistsError: As `save` does.
            OSError: As `save` does.
        """

        def write_to(path: pathlib.Path) -> None:
            with self._as_plain_keras():
                self.save_weights(path, **kwargs)

        write(filepath, write_to, overwrite=overwrite, on_all_ranks=tnt_save_all_devices)

    @collective_call("export")
    def export(
        self,
        filepath: str | os.PathLike[str],
        *args: Any,
        tnt_save_all_devices: bool = False,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.export`, written once as `save` does. Collective.

        Args:
            filepath: As in Keras; what is there is replaced.
            *args: As in Keras.
            tnt_save_all_devices: As for `save`.
            **kwargs: As in Keras.

        Raises:
            OSError: As `save` does.
        """

        def write_to(path: pathlib.Path) -> None:
            with self._as_plain_keras():
                self.export(path, *args, **kwargs)

        write(filepath, write_to, overwrite=True, on_all_ranks=tnt_save_all_devices)

    def load_weights(self, filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.load_weights`. Local: every rank reads the file.

        The next step that all ranks take begins with the weights of the master rank.
        """
        self._tnt_synchronized = False
        super().load_weights(filepath, *args, **kwargs)

    def set_weights(self, weights: list[Any]) -> None:
        """As `keras.Model.set_weights`. Local; the master rank's count, as for `load_weights`."""
        self._tnt_synchronized = False
        super().set_weights(weights)

    def to_json(self, **kwargs: Any) -> str:
        """As `keras.Model.to_json`: describes a plain Keras model. Local."""
        with self._as_plain_keras():
            return str(self.to_json(**kwargs))

    def __reduce__(self) -> Any:
        """Copies and pickles as a plain Keras model. Local."""
        with self._as_plain_keras():
            return self.__reduce__()

    @contextlib.contextmanager
    def _as_plain_keras(self) -> Iterator[None]:
        with without_mixins(self, *self._tnt_communication.optimizers):
            yield
