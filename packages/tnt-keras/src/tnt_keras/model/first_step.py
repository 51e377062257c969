"""Prepare a model for its first step on several ranks: all variables, and equal weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from tnt_keras.callbacks.end_of_data import EndOfData
from tnt_keras.inputs.distributed_input import DistributedInput
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.model.build import build_by_tracing
from tnt_keras.probe.step_proof import StepProofs
from tnt_keras.process.rank import get_size
from tnt_keras.step.layer_settings import require_same_layers
from tnt_keras.step.variables import (
    check_replicas_in_turn,
    replicated_variables,
    synchronize,
)


@dataclasses.dataclass
class Preparation:
    """What has been done so far for the steps of one model.

    Attributes:
        built_steps: Names of the steps whose variables exist, such as `"train_step"`.
        is_synchronized: Whether ranks got the master's weights, and nothing changed them since but
            steps of all ranks.
        replicated: The variables that are equal on all ranks since then.
        num_checks: How often some of them were compared before a single step.
        num_fits: How often `fit` was called.
        proofs: What is known of the steps, by name.
        num_functions: How many train, test and predict functions Keras has made.
        read_variables: Those that steps were seen to read when they were traced, by name.
    """

    built_steps: set[str] = dataclasses.field(default_factory=set)
    is_synchronized: bool = False
    replicated: list[Any] = dataclasses.field(default_factory=list)
    num_checks: int = 0
    num_fits: int = 0
    proofs: dict[str, StepProofs] = dataclasses.field(default_factory=dict)
    num_functions: int = 0
    read_variables: dict[str, list[Any]] = dataclasses.field(default_factory=dict)

    def reset(self) -> None:
        """Forget the steps: the model was compiled anew. Local."""
        self.built_steps.clear()
        self.is_synchronized = False
        self.proofs.clear()

    def proofs_of(self, step_name: str) -> StepProofs:
        """Return the proofs of a step so far. Local.

        Args:
            step_name: "train_step", "test_step" or "predict_step".
        """
        if step_name not in self.proofs:
            self.proofs[step_name] = StepProofs()
        return self.proofs[step_name]


def check_compiled(model: Any, method: str) -> None:
    """Check that a model is compiled. Local.

    Args:
        model: A distributed model.
        method: The method that needs it, for the message.

    Raises:
        ValueError: If it is not.
    """
    if not model.compiled:
        raise ValueError(f"Call `compile()` before `{method}()`: the model has no loss yet.")


def switches(model: Any) -> dict[str, Any]:
    """Return by name what decides how steps run and what they train, equal on all ranks. Local.

    Args:
        model: A distributed model.
    """
    built = sorted(model._tnt_preparation.built_steps)
    return {
        "run_eagerly": model.run_eagerly,
        "steps_per_execution": model.steps_per_execution,
        "steps that ran since compile()": built,
        # One rank may have built its model before, but none trains it alone.
        "number of trainable variables": len(model.trainable_variables) if built else None,
    }


def prepare_steps(model: Any, step_name: str, batch_spec: Any) -> None:
    """Build a model and give all ranks the master's weights, before steps. Collective.

    Args:
        model: A distributed model.
        step_name: "train_step", "test_step" or "predict_step".
        batch_spec: Specs of the batches that the model's own step receives.

    Raises:
        ValueError: If the model has stateful layers.
    """
    if get_size() == 1:
        return
    preparation = model._tnt_preparation
    is_new = step_name not in preparation.built_steps
    if is_new:
        _build(model, step_name, batch_spec)
    synchronize(model)
    if is_new:
        _end_building(model, step_name)
    preparation.is_synchronized = True
    proofs = preparation.proofs_of(step_name)
    proofs.begins = True
    if proofs.current is not None:
        proofs.current.begin_call()


def build_alone(model: Any, step_name: str, batch_spec: Any) -> None:
    """Build a model before its first step on one rank, where Keras does so in the step. Local.

    Args:
        model: A distributed model.
        step_name: As for `prepare_steps`.
        batch_spec: Likewise.
    """
    if get_size() == 1 and step_name not in model._tnt_preparation.built_steps:
        build_by_tracing(model, step_name, batch_spec)
        model._tnt_preparation.built_steps.add(step_name)


def prepare_single_step(model: Any, step_name: str, batch: Any) -> None:
    """Build a model and give all ranks the master's weights, unless it was done. Collective.

    If it was, some weights are compared: other code may run between two single steps.

    Args:
        model: A distributed model.
        step_name: As for `prepare_steps`.
        batch: A global batch, the same on all ranks.

    Raises:
        DifferentWeightsError: On all ranks, if one has changed its weights.
    """
    if get_size() == 1:
        return
    preparation = model._tnt_preparation
    is_new = step_name not in preparation.built_steps
    if is_new:  # else no step need convert its batch here
        _build(model, step_name, tf.nest.map_structure(_spec, batch))
    was_synchronized = preparation.is_synchronized
    if not was_synchronized:
        synchronize(model)
        preparation.is_synchronized = True
        preparation.replicated = []
    if is_new:
        _end_building(model, step_name)
    if not was_synchronized:
        return
    preparation.replicated = preparation.replicated or replicated_variables(model)
    check_replicas_in_turn(model, preparation.replicated, preparation.num_checks)
    preparation.num_checks += 1


def end_of_data_callback(
    model: Any,
    training: DistributedInput | None = None,
    testing: DistributedInput | None = None,
    predicting: DistributedInput | None = None,
) -> EndOfData | None:
    """Return the callback that compares where the data of ranks end. Collective the first time.

    Args:
        model: A distributed model.
        training: Input of its training steps, if any.
        testing: Likewise for `evaluate`, also within `fit`.
        predicting: Likewise for `predict`.

    Returns:
        The callback; None if all ranks have equally many steps by the way they share the data.
    """
    is_compared = [
        part is not None and part.is_compared for part in (training, testing, predicting)
    ]
    if not any(is_compared):
        return None
    data_check = model._tnt_communication.make_data_check()
    return EndOfData(
        data_check, training=is_compared[0], testing=is_compared[1], predicting=is_compared[2]
    )


def _build(model: Any, step_name: str, batch_spec: Any) -> None:
    _check_stateless(model)
    _check_steps_of_class(model)
    read = build_by_tracing(model, step_name, batch_spec)
    model._tnt_preparation.read_variables[step_name] = read


def _end_building(model: Any, step_name: str) -> None:
    # After the variables, whose differences are said more clearly.
    require_same_layers(model)
    model._tnt_preparation.built_steps.add(step_name)


def _check_stateless(model: Any) -> None:
    """Refuse `stateful` recurrent layers: their state belongs to the rows of a fixed batch."""
    stateful = [layer.name for layer in all_layers(model) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(
            f"The layer {stateful[0]!r} has `stateful=True`: it keeps a state for each place in "
            f"the batch, of which each of {get_size()} ranks gets some. Such a layer cannot be "
            "distributed: leave `stateful` out, or train on one rank."
        )


def _check_steps_of_class(model: Any) -> None:
    """Refuse steps that are set on the object: they run in the place of the distributed ones."""
    for name in ("train_step", "test_step", "predict_step"):
        if name in vars(model):
            raise ValueError(
                f"`{name}` was set on the object of the model {model.name!r}, so that ranks would "
                "each run it on their own. Write it in a class, as in `class MyModel(keras.Model):"
                f" def {name}(self, data): ...`."
            )


def _spec(value: Any) -> Any:
    if value is None:
        return None
    return tf.type_spec_from_value(value if tf.is_tensor(value) else tf.convert_to_tensor(value))
