"""TensorBoard files: of the master alone, or of each rank in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

import keras

from tnt_keras.callbacks.wrapper import Callback
from tnt_keras.collectives.current_call import alone
from tnt_keras.process.environment import settings
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_rank


class TensorBoardOfRank(Callback):
    """Let this rank write its files below `<log_dir>/rank_<rank>`, without the other ranks."""

    def set_model(self, model: keras.Model) -> None:
        """Choose the folder, and give the callback the model. Local."""
        folder = f"rank_{get_rank()}"
        if os.path.basename(self.callback.log_dir) != folder:  # else an earlier `fit` has done it
            self.callback.log_dir = os.path.join(self.callback.log_dir, folder)
        super().set_model(model)

    def _run(self, call: Callable[[], None]) -> None:
        with alone(type(self.callback).__name__):
            call()


def tensorboard_on_its_ranks(given: keras.callbacks.Callback) -> Callback:
    """Return what runs a `TensorBoard` on the ranks that are to write. Local.

    `TNT_TENSORBOARD_ON_ALL_DEVICES` says which, unless the callback is wrapped.
    """
    wanted = settings().tensorboard_on_all_ranks
    if not isinstance(given, Callback):
        return TensorBoardOfRank(given) if wanted else Callback(given, run_on_all_ranks=False)
    if wanted is not None and wanted != given.run_on_all_ranks:
        logger.warning(
            "TNT_TENSORBOARD_ON_ALL_DEVICES asks for TensorBoard on %s, but the callback is "
            "wrapped with run_on_all_ranks=%s, which is done.",
            "all ranks" if wanted else "the master rank alone",
            given.run_on_all_ranks,
        )
    if given.run_on_all_ranks:
        return TensorBoardOfRank(given.callback, given.aggregate_logs)
    return given
