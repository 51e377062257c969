"""Tell of plain Keras in a job of several ranks, where each would work on its own."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import keras

from tnt_keras.calls.current_call import user_line
from tnt_keras.keras_hooks.private_tensorflow import keep_generated_code_in_memory
from tnt_keras.process.rank import (
    get_rank,
    get_size,
    is_master_rank,
    logger,
    set_up_logging,
    settings,
)

_Function = Callable[..., Any]


def watch_plain_keras() -> None:
    """Tell of plain models that are fitted, and of files that only the master sees. Local.

    It asks for no rank now: what a process imports, its forks have, which may be ranks of a job.
    """
    keep_generated_code_in_memory()
    keras.Model.fit = _warning_of_plain_models(keras.Model.fit)
    _replace_in_all_modules(
        keras.models.load_model, _naming_the_collective(keras.models.load_model)
    )


def _warning_of_plain_models(fit: _Function) -> _Function:
    @functools.wraps(fit)
    def fit_and_tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        if get_size() > 1 and not hasattr(self, "_tnt_owner"):
            _warn_once()
        return fit(self, *args, **kwargs)

    return fit_and_tell


@functools.cache
def _warn_once() -> None:
    set_up_logging(settings())
    logger.warning(
        "%s: a plain Keras model is fitted in a job of %d ranks. Each rank trains its own copy, "
        "and ranks share nothing. To train one model together, call `model = tnt.Model(model)` "
        "first. (A tuner's trials, or a teacher that each rank trains, need no change.) "
        "[plain-model]",
        user_line(),
        get_size(),
    )


def _naming_the_collective(load_model: _Function) -> _Function:
    @functools.wraps(load_model)
    def load(filepath: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return load_model(filepath, *args, **kwargs)
        except (OSError, ValueError) as error:
            if is_master_rank() or "://" in str(filepath) or os.path.exists(filepath):
                raise
            kind = FileNotFoundError if isinstance(error, OSError) else ValueError
            raise kind(
                f"{error} Rank {get_rank()} cannot see this file. If rank 0 can, call "
                "`tnt.models.load_model` on all ranks: it gives the model to all of them."
            ) from None

    return load


def _replace_in_all_modules(function: _Function, by: _Function) -> None:
    """Replace a function also where it was imported by its name."""
    for module in list(sys.modules.values()):
        if vars(module).get(function.__name__) is function:
            setattr(module, function.__name__, by)
