"""Packages that keep logs of trainings, known by name: none of them is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LOGGER_PACKAGES = frozenset(
    {
        *("aim", "clearml", "comet_ml", "dvclive", "mlflow", "neptune", "neptune_tensorflow_keras"),
        *("swanlab", "trackio", "wandb"),
    }
)
"""Packages that send logs to a server or a folder; their callbacks do nothing else."""


def logger_package(module: str) -> str | None:
    """Return the logger's package that a module is part of, None for other modules. Pure."""
    package = module.partition(".")[0]
    return package if package in LOGGER_PACKAGES else None


def logger_in_place_of(function: Callable[..., Any]) -> str | None:
    """Return the logger's package that has wrapped a function, as MLflow's autolog does. Local."""
    wrapper: Any = function
    while wrapper is not None:
        # `__module__` is that of the wrapped function.
        package = logger_package(getattr(wrapper, "__globals__", {}).get("__name__", ""))
        if package is not None:
            return package
        wrapper = getattr(wrapper, "__wrapped__", None)
    return None
