"""What a step changes besides the trainable weights, made global in one exchange."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.collectives.checks import require
from tnt_keras.collectives.reduction import ReductionCache
from tnt_keras.process.log import logger
from tnt_keras.step.context import Step
from tnt_keras.step.layer_statistics import StatisticsStates
from tnt_keras.step.metrics import MetricStates, RecordedResults, all_metrics, weighted_scalars


class StepState:
    """Metrics, statistics and logs of a model during one step.

    Create it before the user's step runs, run the step inside `watching()`, then pass what it
    returned to `global_logs`.

    Args:
        model: A built model.
        step: The current step.
        reductions: Sums the increments.
        training: Whether the step may change the statistics of layers.
    """

    def __init__(
        self, model: keras.Model, step: Step, reductions: ReductionCache, training: bool
    ) -> None:
        self._step = step
        self._reductions = reductions
        self._watched_metrics = all_metrics(model)
        self._metrics = MetricStates(self._watched_metrics, step)
        self._statistics = StatisticsStates(model) if training else None
        self._results = RecordedResults()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Records results and weights scalars inside a with-block around the user's step."""
        with self._results.recording(self._watched_metrics), weighted_scalars(self._step):
            yield

    def global_logs(self, logs: Any) -> Any:
        """Exchanges the increments and returns the logs of the global batch. Collective.

        A value that is the result of a metric is computed again from the metric's global state.
        Any other scalar is averaged over ranks with the weights n_r / n.

        Args:
            logs: What the user's step returned: a dict of scalars.

        Returns:
            The same structure with global values, equal on every rank.
        """
        loose = self._loose_values(logs)
        metric_increments = self._metrics.increments()
        statistics = self._statistics.increments() if self._statistics else []
        *totals, num_samples = self._sum(
            metric_increments, statistics, [value for _, value in loose]
        )
        _check_number_of_samples(num_samples, self._step)

        num_metrics, num_statistics = len(metric_increments), len(statistics)
        self._metrics.add(totals[:num_metrics])
        if self._statistics:
            self._statistics.add(totals[num_metrics : num_metrics + num_statistics])
        loose_totals = iter(totals[num_metrics + num_statistics :])
        means = {key: next(loose_totals) for key, _ in loose}
        if not isinstance(logs, dict):
            return logs
        return {key: self._global_value(key, value, means) for key, value in logs.items()}

    def _loose_values(self, logs: Any) -> list[tuple[str, tf.Tensor]]:
        if not isinstance(logs, dict):
            return []
        loose = [
            (key, value)
            for key, value in logs.items()
            if tf.is_tensor(value) and self._results.recompute(value) is None
        ]
        for key, value in loose:
            if self._results.is_derived(value):
                raise ValueError(
                    f"`train_step` or `test_step` returned {key!r}, which is computed from the "
                    "result of a metric. On several ranks that result is not complete before the "
                    "step ends. Return `metric.result()` itself, or make a metric whose `result` "
                    f"computes {key!r}."
                )
            if value.shape.rank != 0:
                raise ValueError(
                    f"`train_step` returned {key!r} of shape {value.shape}, which is no metric's "
                    "result. Return scalars or results of metrics."
                )
            logger.warning(
                "The value %r that the model's step returns is not the result of a metric: it is "
                "averaged over ranks, weighted by their samples. If it is anything but a mean "
                "over samples, keep it in a metric and return `metric.result()`.",
                key,
            )
        return [(key, tf.cast(value, tf.float32)) for key, value in loose]

    def _global_value(self, key: str, value: Any, means: dict[str, tf.Tensor]) -> Any:
        if key in means:
            return tf.cast(means[key], value.dtype)
        compute: Callable[[], tf.Tensor] | None = self._results.recompute(value)
        return value if compute is None else compute()

    def _sum(
        self,
        metrics: list[tf.Tensor],
        statistics: list[tf.Tensor],
        loose: list[tf.Tensor],
    ) -> list[tf.Tensor]:
        """Sums over ranks, weighted; last of all, the number of samples of all ranks."""
        values = [*metrics, *statistics, *loose, tf.cast(self._step.num_local, tf.float32)]
        names = [variable.path for variable in self._metrics.variables]
        names += [v.path for v in self._statistics.variables] if self._statistics else []
        names += [*(f"log {index}" for index in range(len(loose))), "number of samples"]
        step = self._step
        scales = [step.presence] * len(metrics)
        scales += self._statistics.scales(step) if self._statistics else []
        scales += [*([step.share] * len(loose)), step.presence]
        reduction = self._reductions.get(names, values)
        tokens, pending = reduction.start(values, scales)
        totals = reduction.finish(pending, step.barrier(tokens))
        step.close_group(totals)
        return totals


def _check_number_of_samples(of_all_ranks: tf.Tensor, step: Step) -> None:
    """A rank that reads other data than the rest would spoil results without a sign."""
    require(
        tf.cast(of_all_ranks, tf.int64) == step.num_global,
        "The samples of all ranks do not add up to the global batch: ranks have read "
        "batches of different sizes. All ranks must be given the same data.",
    )
