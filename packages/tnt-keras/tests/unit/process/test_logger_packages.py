"""Packages of loggers are known by their names, also where they have wrapped a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tnt_keras.process.loggers import logger_in_place_of, logger_package


def wrapped_by(module: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper that a module of that name would make."""
    names: dict[str, Any] = {"__name__": module}
    exec("def wrapper(*args, **kwargs): ...", names)
    return functools.wraps(function)(names["wrapper"])


@pytest.mark.parametrize(
    ("module", "package"),
    [("wandb", "wandb"), ("mlflow.keras.callback", "mlflow"), ("mlflow_of_mine", None)],
)
def test_a_module_belongs_to_the_package_that_its_name_begins_with(
    module: str, package: str | None
) -> None:
    assert logger_package(module) == package


def test_a_logger_is_found_below_the_wrapper_of_another() -> None:
    logging = wrapped_by("mlflow.utils.autologging_utils.safety", print)
    assert logger_in_place_of(logging) == "mlflow"
    assert logger_in_place_of(wrapped_by("train", logging)) == "mlflow"


def test_a_function_that_others_have_wrapped_has_no_logger() -> None:
    assert (
        logger_in_place_of(wrapped_by("train", test_a_logger_is_found_below_the_wrapper_of_another))
        is None
    )
    assert logger_in_place_of(print) is None
