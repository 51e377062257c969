"""`tnt.explain`: what ranks exchange in the steps of a model, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tnt_keras.api.model import Model
from tnt_keras.api.step_function import StepFunction
from tnt_keras.process.output import print
from tnt_keras.process.rank import get_size
from tnt_keras.step.keras_function import Steps

_KINDS = ("train", "test", "predict")


def explain(model: Any) -> None:
    """Print on the master rank what ranks exchange in the steps that have run. Local.

    There is a table for each kind of step: the values that travel in a step, with their sizes and
    the lines of the script that ask for them, and the share of the arithmetic that all ranks do
    alike. Values with the same number of *exchange* travel together. On one rank nothing does.

    Args:
        model: A model that `tnt.Model` has made, or a function or method of `tnt.function`.

    Raises:
        TypeError: If it is neither.
        RuntimeError: If none of its steps has run, or none since the model was compiled.
    """
    model = getattr(model, "__func__", model)  # of a method
    if not isinstance(model, (Model, StepFunction)):
        raise TypeError(
            "`tnt.explain` takes a model of `tnt.Model` or a function of `tnt.function`. Received: "
            f"{type(model).__name__}."
        )
    if get_size() == 1:
        print("On one rank nothing is exchanged.")
        return
    tables = [table for steps in _steps_of(model) for table in steps.tables]
    if not tables:
        raise RuntimeError(
            "No step has run yet, or none since `compile`, so that there is nothing to explain. "
            "Call `tnt.explain` after `fit`, `evaluate`, `predict` or a call of the function."
        )
    print("\n\n".join(tables))


def _steps_of(model: Any) -> Iterable[Steps]:
    if isinstance(model, StepFunction):
        return model.all_steps
    functions = [getattr(model, f"{kind}_function") for kind in _KINDS]
    return [function.steps for function in functions if function is not None]
