"""Make global, in one exchange, what a step changes besides the trainable weights."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.collectives.channel import Allreduce, Channel
from tnt_keras.collectives.checks import require
from tnt_keras.process.log import logger
from tnt_keras.step.context import Step
from tnt_keras.step.increment import Increment, combine
from tnt_keras.step.layer_statistics import (
    RuledStates,
    StatisticsStates,
    statistics_variables,
)
from tnt_keras.step.logs import (
    Path,
    is_of_this_rank,
    is_variable,
    like,
    map_logs,
    summand_of,
)
from tnt_keras.step.metrics import MetricStates, RecordedResults, all_metrics, weighted_scalars
from tnt_keras.step.own_logs import OwnLogs
from tnt_keras.step.rules import Rule


class StepState:
    """Metrics, statistics and logs of a model during one step.

    Create it before the user's step runs, run the step inside `watching()`, then pass what it
    returned to `global_logs`.

    Args:
        model: A built model.
        step: The current step.
        channel: Sums the increments.
        training: Whether the step may change the statistics of layers.
        own_logs: Keeps the logs of this rank's samples; None if nobody asks for them.
    """

    def __init__(
        self,
        model: keras.Model,
        step: Step,
        channel: Channel,
        training: bool,
        own_logs: OwnLogs | None = None,
    ) -> None:
        self._step = step
        self._step_name = "train_step" if training else "test_step"
        self._own_logs = own_logs
        self._channel = channel
        self._watched_metrics = all_metrics(model)
        self._metrics = MetricStates(self._watched_metrics, step)
        self._statistics = StatisticsStates(statistics_variables(model) if training else [], step)
        self._ruled = RuledStates(step)
        self._results = RecordedResults()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Record results and weight scalars in a with-block around the user's step. Local."""
        complete = self._metrics.complete_results()
        recording = self._results.recording(self._watched_metrics, complete)
        with recording, weighted_scalars(self._step):
            yield

    def global_logs(self, logs: Any) -> Any:
        """Exchange the increments and return the logs of the global batch. Collective.

        A value that is the result of a metric is computed again from the metric's global state.
        Any other scalar is averaged over ranks with the weights n_r / n, or has a rule. A variable
        is read when it is global.

        Args:
            logs: What the user's step returned: scalars in a dict, or in any structure.

        Returns:
            The same structure with global values, equal on every rank.
        """
        means: dict[Path, tf.Tensor] = {}
        increments = [
            self._number_of_samples(),
            *self._metrics.increments(),
            *self._statistics.increments(),
            *self._ruled.increments(),
            *self._other_logs(logs, means),
        ]
        results, others = self._own_values(logs)
        combine(increments, self._step, self._channel)
        of_all = map_logs(functools.partial(self._global_value, means), logs)
        self._keep_own_values(results, others, of_all)
        return of_all

    def _own_values(self, logs: Any) -> tuple[dict[Path, tf.Tensor], dict[Path, tf.Tensor]]:
        """Return the values of this rank's samples, if they are kept: metrics' results and others.

        Those of metrics whose state is no sum over samples cannot be told apart.
        """
        results: dict[Path, tf.Tensor] = {}
        others: dict[Path, tf.Tensor] = {}
        if self._own_logs is None:
            return results, others
        variables = self._metrics.hold_own_sums(self._own_logs)

        def note(path: Path, value: Any) -> None:
            compute = self._results.compute_now(value, variables)
            if compute is not None:
                results[path] = tf.identity(compute())
            elif self._results.recompute(value) is None and is_of_this_rank(value):
                others[path] = tf.convert_to_tensor(value)

        map_logs(note, logs)
        return results, others

    def _keep_own_values(
        self, results: dict[Path, tf.Tensor], others: dict[Path, tf.Tensor], of_all: Any
    ) -> None:
        """Keep the values of this rank; without samples, those of all for others than results."""
        if self._own_logs is None:
            return
        values = dict(results)
        has_samples = self._step.presence > 0

        def choose(path: Path, value: Any) -> None:
            if path in others:
                own = others[path]
                values[path] = tf.where(has_samples, own, tf.cast(value, own.dtype))

        map_logs(choose, of_all)
        self._own_logs.keep(self._step_name, values)

    def _number_of_samples(self) -> Increment:
        """Return the check that the samples of all ranks add up to the global batch."""
        num_local = tf.cast(self._step.num_local, tf.float32)

        def check(of_all_ranks: tf.Tensor) -> None:
            require(
                tf.cast(of_all_ranks, tf.int64) == self._step.num_global,
                "The samples of all ranks do not add up to the global batch: ranks have read "
                "batches of different sizes. All ranks must be given the same data.",
            )

        return Increment(Allreduce("number of samples", num_local, self._step.presence), check)

    def _other_logs(self, logs: Any, means: dict[Path, tf.Tensor]) -> list[Increment]:
        """Return the logs that are not results of metrics; their means over ranks go to `means`."""
        increments: list[Increment] = []

        def combine_by_rule(path: Path, value: Any) -> None:
            if not is_of_this_rank(value) or self._results.recompute(value) is not None:
                return
            if any(value is complete for complete in self._step.complete_values):
                return
            rule = self._step.rules.logs.get(path)
            name, summand = "/".join(path) or "result", summand_of(value)
            self._check_other_log(name, tf.convert_to_tensor(value), is_proved=rule is not None)
            use = functools.partial(means.__setitem__, path)
            increments.append(
                Increment.by_rule(f"log {name!r}", summand, rule or Rule.MEAN, self._step, use)
            )

        map_logs(combine_by_rule, logs)
        return increments

    def _check_other_log(self, key: str, value: tf.Tensor, *, is_proved: bool) -> None:
        is_complete = self._step.rules.completes_results
        if not is_complete and self._results.is_derived(value):
            raise ValueError(
                f"`train_step` or `test_step` returned {key!r}, which is computed from the "
                "result of a metric. On several ranks that result is not complete before the "
                "step ends. Return `metric.result()` itself, or make a metric whose `result` "
                f"computes {key!r}."
            )
        if value.shape.rank != 0 and not is_proved:
            raise ValueError(
                f"`train_step` returned {key!r} of shape {value.shape}, which is no metric's "
                "result. Return scalars or results of metrics."
            )
        if is_proved:
            return
        logger.warning(
            "The value %r that the model's step returns is not the result of a metric: it is "
            "averaged over ranks, weighted by their samples. If it is anything but a mean "
            "over samples, keep it in a metric and return `metric.result()`.",
            key,
        )

    def _global_value(self, means: dict[Path, tf.Tensor], path: Path, value: Any) -> Any:
        if path in means:
            return like(value, means[path])
        if is_variable(value):
            return tf.convert_to_tensor(value)
        compute: Callable[[], tf.Tensor] | None = self._results.recompute(value)
        return value if compute is None else compute()
