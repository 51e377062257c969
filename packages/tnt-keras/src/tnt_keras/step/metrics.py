"""Metrics of the global batch on every rank, whatever the user's step makes of them.

The variables of a Keras metric are sums over samples, so the sum over ranks of what a step adds to
them is what the serial step adds. In each step

    1. the variables are set to zero, their values kept (`before`);
    2. the user's step updates them with this rank's samples (`increment_r`);
    3. variable := before + sum_r increment_r.

They then hold the global state on every rank, and so do all results, logs and callbacks. A variable
that has a rule of its own (`step.rules`) is left to `step.layer_statistics`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.step.complete_results import CompleteResults
from tnt_keras.step.context import Step, current_step
from tnt_keras.step.graph_search import is_computed_from
from tnt_keras.step.increment import Increment
from tnt_keras.step.logs import Path, is_variable, map_logs
from tnt_keras.step.own_logs import OwnLogs


def all_metrics(model: keras.Model) -> list[Any]:
    """Return the metrics of a model, also those that its own `metrics` leaves out. Local.

    Args:
        model: A built model.
    """
    metrics = [*model.metrics, *keras.Model.metrics.fget(model)]
    return list({id(metric): metric for metric in metrics}.values())


class MetricStates:
    """The variables of a model's metrics during one step.

    Args:
        metrics: All metrics of the model.
        step: The current step.

    Raises:
        ValueError: If a metric has a variable that is declared not to be a sum, and no rule.
    """

    def __init__(self, metrics: list[Any], step: Step) -> None:
        self._step = step
        self._variables: list[Any] = []
        for metric in metrics:
            for variable in metric.variables:
                if step.rules.of_variable(variable) is not None:
                    continue
                if getattr(variable, "aggregation", "sum") != "sum":
                    raise ValueError(
                        f"The metric {metric.name!r} has a variable {variable.path!r} with "
                        f"aggregation={variable.aggregation!r}. Only sums can be combined over "
                        "ranks: express the metric by sums, with aggregation='sum'."
                    )
                if all(variable is not known for known in self._variables):
                    self._variables.append(variable)
        # Keras finds the end of a dataset of unknown length by a step that gets no data. What does
        # not need any would run in it as well, and leave zeros behind.
        with tf.control_dependencies([step.share]):
            self._before = [tf.identity(variable.value) for variable in self._variables]
            for variable in self._variables:
                variable.assign(tf.zeros_like(variable.value))

    def complete_results(self) -> CompleteResults | None:
        """Return what completes results inside of the step; None if its rules do not ask for it."""
        if not self._step.rules.completes_results:
            return None
        return CompleteResults(self._variables, self._before, self._step)

    def increments(self) -> list[Increment]:
        """Return what this rank's samples have added to the variables so far. Local."""
        return [
            Increment.of_variable(
                variable, before, tf.identity(variable.value), self._step.presence
            )
            for variable, before in zip(self._variables, self._before, strict=True)
        ]

    def hold_own_sums(self, own_logs: OwnLogs) -> list[Any]:
        """Let the variables hold what this rank's samples have added in all steps. Local.

        Args:
            own_logs: Has the sums of earlier steps.

        Returns:
            The variables.
        """
        increments = [tf.identity(variable.value) for variable in self._variables]
        own_logs.add(self._variables, increments, self._step.presence)
        return self._variables


_Compute = Callable[[], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class _Result:
    """What a metric has given, and how to get it again: once for all items of it, or each time."""

    value: Any
    compute: _Compute
    compute_now: _Compute
    metric: Any


class RecordedResults:
    """Remember which tensor is the result of which metric, to compute it again later."""

    def __init__(self) -> None:
        self._results: list[_Result] = []

    @contextlib.contextmanager
    def recording(
        self, metrics: list[Any], complete: CompleteResults | None = None
    ) -> Iterator[None]:
        """Record all calls of `metric.result()` inside a with-block. Local.

        Args:
            metrics: The metrics to watch.
            complete: What computes results in the block, which are then final. Calls are
                collective.
        """
        with contextlib.ExitStack() as stack:
            for metric in metrics:
                recorder = self._recorder(metric, metric.result, complete)
                stack.enter_context(replaced(metric, "result", recorder))
            stack.enter_context(replaced(keras.Model, "get_metrics_result", _results_of))
            yield

    def recompute(self, value: Any) -> Callable[[], tf.Tensor] | None:
        """Return a function that computes the result `value` again; None if it is no result. Local.

        Args:
            value: Anything that the user's step returned.
        """
        found = self._find(value)
        return None if found is None else found.compute

    def compute_now(self, value: Any, variables: list[Any]) -> Callable[[], tf.Tensor] | None:
        """Return a function like that of `recompute`, which keeps nothing for later calls. Local.

        It computes of what the variables of the metric hold when it is called.

        Args:
            value: Anything that the user's step returned.
            variables: Of metrics. None is returned if the metric has others, too.
        """
        found = self._find(value)
        known = {id(variable) for variable in variables}
        if found is None or any(id(each) not in known for each in found.metric.variables):
            return None
        return found.compute_now

    def _find(self, value: Any) -> _Result | None:
        return next((result for result in self._results if result.value is value), None)

    def is_derived(self, value: tf.Tensor) -> bool:
        """Return whether a tensor of the graph being traced was computed from a result. Local.

        Args:
            value: Any tensor; of eager ones nothing is known.
        """
        if tf.executing_eagerly():
            return False
        results = {each.value.op for each in self._results if tf.is_tensor(each.value)}
        return is_computed_from([value], results)

    def _recorder(
        self, metric: Any, plain_result: Callable[[], Any], complete: CompleteResults | None
    ) -> Callable[[], Any]:
        def value_of_result() -> Any:
            return map_logs(_value_of, plain_result())

        def result() -> Any:
            if complete is not None and complete.covers(metric):
                final = complete.compute(metric, value_of_result)
                self._note(_Result(final, lambda: final, value_of_result, metric))
                return final
            value = value_of_result()
            if isinstance(value, dict):
                once = functools.cache(value_of_result)  # for all items
                self._note(_Result(value, once, value_of_result, metric))
            else:
                self._note(_Result(value, value_of_result, value_of_result, metric))
            return value

        return result

    def _note(self, result: _Result) -> None:
        """Note a result; one that is a dict, also of dicts, item by item."""
        if not isinstance(result.value, dict):
            self._results.append(result)
            return
        for key, item in result.value.items():
            computes = _item_of(result.compute, key), _item_of(result.compute_now, key)
            self._note(_Result(item, *computes, result.metric))


def _value_of(path: Path, result: Any) -> Any:
    """Return the value of a metric's own variable, whose uses a graph shows; else the result."""
    return tf.convert_to_tensor(result) if is_variable(result) else result


def _results_of(model: keras.Model) -> dict[str, Any]:
    """Return what `get_metrics_result` does. Some versions of Keras make eager results numbers."""
    results: dict[str, Any] = {}
    for metric in model.metrics:
        result = metric.result()
        results.update(result if isinstance(result, dict) else {metric.name: result})
    return results


def _item_of(compute_all: Callable[[], Any], key: str) -> Callable[[], Any]:
    return lambda: compute_all()[key]


@contextlib.contextmanager
def weighted_scalars(step: Step) -> Iterator[None]:
    """Weight scalars that are handed to `Mean` metrics inside a with-block. Local.

    `loss_tracker.update_state(loss)` counts as one value, not as one per sample. The value of the
    serial step is sum_r (n_r / n) * value_r, so each rank's scalar gets the weight n_r / n; the
    weights of all ranks add up to the one value that the serial step counts. (What is handed to a
    `Sum` is taken for a total, such as a number of tokens, and simply added.)

    Args:
        step: The current step.
    """
    plain_update = keras.metrics.Mean.update_state

    def update_state(metric: Any, values: Any, sample_weight: Any = None) -> Any:
        is_in_step = current_step() is step  # not another thread's
        has_rule = any(step.rules.of_variable(variable) for variable in metric.variables)
        if is_in_step and not has_rule and sample_weight is None and keras.ops.ndim(values) == 0:
            sample_weight = tf.cast(step.share, metric.dtype)
        return plain_update(metric, values, sample_weight)

    with replaced(keras.metrics.Mean, "update_state", update_state):
        yield
