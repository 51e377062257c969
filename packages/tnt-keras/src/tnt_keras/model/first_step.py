"""Prepare a model for its first step on several ranks: all variables, and equal weights."""

from __future__ import annotations

from typing import Any

from tnt_keras.callbacks.end_of_data import EndOfData
from tnt_keras.inputs.distributed_input import DistributedInput
from tnt_keras.process.rank import get_size
from tnt_keras.step.accumulation import settle
from tnt_keras.step.generators import use_generators_of_master
from tnt_keras.step.variables import check_replicas_in_turn, synchronize

_KINDS = ("train", "test", "predict")


def split_arguments(local: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all arguments of a method, given its `locals()`, and those that Keras knows. Local."""
    given = {**local, **local.get("kwargs", {})}
    given = {k: v for k, v in given.items() if k not in ("self", "__class__", "kwargs")}
    own = {name for name in given if name.startswith("tnt_")} | {"verify_inputs"}
    return given, {name: value for name, value in given.items() if name not in own}


def check_compiled(model: Any, method: str) -> None:
    """Refuse a model that is not compiled. Local."""
    if not model.compiled:
        raise ValueError(f"Call `compile()` before `{method}()`: the model has no loss yet.")


def switches(model: Any) -> dict[str, Any]:
    """Return by name what decides how steps run and what they train, equal on all ranks. Local."""
    made = [kind for kind in _KINDS if getattr(model, f"{kind}_function") is not None]
    return {
        "run_eagerly": model.run_eagerly,
        "steps_per_execution": model.steps_per_execution,
        "steps that ran since compile()": made,
        # One rank may have built its model before, but none trains it alone.
        "number of trainable variables": len(model.trainable_variables) if model.built else None,
    }


def prepare_steps(model: Any) -> None:
    """Give all ranks the master's weights before the steps of a call. Collective.

    What is made in the first step gets the master's values there.
    """
    if get_size() == 1:
        return
    settle(model._tnt_owner.optimizers)
    synchronize(model._tnt_owner)
    if model.run_eagerly:
        use_generators_of_master()
    model._tnt_owner.is_synchronized = True


def prepare_single_step(model: Any) -> None:
    """Give all ranks the master's weights before a single step, unless it was done. Collective.

    If it was, some weights are compared: other code may run between two single steps.
    """
    if get_size() > 1 and model._tnt_owner.is_synchronized:
        check_replicas_in_turn(model._tnt_owner)
    else:
        prepare_steps(model)


def callbacks_for_data(model: Any, **inputs: DistributedInput | None) -> list[EndOfData]:
    """Return what compares where the data of ranks end, if needed. Collective when called first."""
    compared = {kind: part is not None and part.is_compared for kind, part in inputs.items()}
    return [EndOfData(model._tnt_owner.data_check(), **compared)] if any(compared.values()) else []
