"""What a user is told of steps: reports, logs of a rank's own samples, faults of this package.

A report is a line when a step runs first, warnings, and a table on demand.

Variables of metrics hold sums over the samples of all ranks. For `OwnLogs` a rank adds up what its
rows have added to them, and computes results of metrics from that when asked, without other ranks.
What is no sum over samples stays global, and so do values of no metric, and steps that each rank
computes whole.

The first step of each kind can be compared with the serial one: a difference is a fault of ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition import Explanation, TracedStep, is_draw
from tnt_keras.partition.graph import Edge, past_aliases, users_line
from tnt_keras.process.lanes import given_lanes, num_lanes
from tnt_keras.process.rank import is_master_rank, logger, settings
from tnt_keras.step.batch_norm_region import Normalisations
from tnt_keras.step.owner import StepOptions
from tnt_keras.step.replicas import array_of

_LEAST_SAMPLES = 16  # fewer give statistics that are too noisy to train with

Array: TypeAlias = "np.ndarray[Any, Any]"

_EFFECTS = frozenset(
    {
        *("PyFunc", "PyFuncStateless", "EagerPyFunc", "Print", "PrintV2"),
        *("WriteScalarSummary", "WriteSummary", "WriteHistogramSummary", "WriteImageSummary"),
        *("WriteFile", "SaveV2", "MutableHashTableV2", "LookupTableInsertV2"),
        *("Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2"),
        *("RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt"),
        "TruncatedNormal",  # like the others in this line and above it: their state is their own
    }
)
_BOUNDS = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 1e-4, "float64": 1e-8}
"""Differences of rounding, relative to the largest entry, by dtype."""


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What there is to say of one kind of step."""

    title: str  # "train_step on 4 ranks"
    explanation: Explanation
    is_cut: bool  # else all ranks compute the whole batch
    num_own_draws: int = 0  # draws with other numbers than in the serial run
    num_clusters: int = 0  # functions that XLA compiles

    @property
    def line(self) -> str:
        """What is exchanged, in one line."""
        if not self.is_cut:
            return f"{self.title}: all ranks compute the whole batch, gathered before the step"
        own = self.num_own_draws
        draws = f"; {own} random draw{'s' if own > 1 else ''} of each rank's own" if own else ""
        num, of_xla = self.num_clusters, ""
        if num:
            of_xla = f"; XLA compiles {num} function{'s' if num > 1 else ''} between exchanges"
        return f"{self.title}: {self.explanation.summary}{draws}{of_xla}"

    @property
    def table(self) -> str:
        """The line, and a table with a line for each value that is exchanged."""
        return f"{self.line}\n\n{self.explanation.table()}" if self.is_cut else self.line

    def announce(self, normalisations: Normalisations, num_rows: int) -> None:
        """Log the line and what makes the step slow or not serial; print the table. Local."""
        logger.info("%s", self.line)
        if settings().explains_steps and is_master_rank():
            print(self.table, flush=True)
        if self.is_cut:
            for warning in self.explanation.warnings():
                logger.warning("%s: %s [work-repeated]", self.title, warning)
            _announce_normalisations(normalisations, num_rows)


def _announce_normalisations(normalisations: Normalisations, num_rows: int) -> None:
    for layers, rows in (
        (normalisations.whole, "the rows of the whole batch, as on one rank"),
        (
            normalisations.local,
            f"each {_part()}'s rows, as DDP and Horovod do; "
            'batch_norm="global" gives the serial result',
        ),
    ):
        if layers:
            several = "s use" if len(layers) > 1 else " uses"
            logger.info("%d batch normalisation%s %s", len(layers), several, rows)
    if normalisations.local and num_rows < _LEAST_SAMPLES * num_lanes():
        logger.warning(
            "The model uses batch normalisation, whose statistics are those of each %s's "
            "micro-batch: %d samples of %d on %d %ss. Below %d samples per %s training may "
            "suffer: give the layers `synchronized=True`, which takes those of the whole batch, or "
            "use a larger batch or fewer %ss. [small-batch-statistics]",
            *(_part(), num_rows // num_lanes(), num_rows, num_lanes(), _part()),
            *(_LEAST_SAMPLES, _part(), _part()),
        )


def _part() -> str:
    """Return what takes statistics of its own."""
    return "rank" if given_lanes() is None else "lane"


class OwnLogs:
    """What the steps of a compiled model keep for this rank."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._sums: dict[int, Any] = {}
        self._newest = ""  # the step whose results are not computed yet
        self._values: dict[str, dict[str, Any]] = {}

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the metrics, of which steps are to give partial sums. Local."""
        return [each.value for metric in self._model.metrics for each in metric.variables]

    def add(
        self,
        step_name: str,
        variables: Sequence[tf.Variable],
        partial_sums: Sequence[tf.Tensor | None],
        factor: float,
    ) -> None:
        """Add `factor` times what this rank's rows have added in a step; None is no sum. Local."""
        for variable, partial_sum in zip(variables, partial_sums, strict=True):
            before = self._sums.get(id(variable), 0.0)
            if partial_sum is None or before is None:
                self._sums[id(variable)] = None
            else:
                self._sums[id(variable)] = before + factor * partial_sum
        self._newest = step_name

    def reset(self) -> None:
        """Begin anew, as Keras does with metrics. Local."""
        self._sums.clear()

    def replace(self, logs: dict[str, Any], step_name: str) -> dict[str, Any]:
        """Return global logs of a step, with values of this rank where there are any. Local."""
        if self._newest == step_name:
            self._values[step_name] = self._results()
            self._newest = ""
        own = self._values.get(step_name, {})
        return {key: own.get(key, value) for key, value in logs.items()}

    def _results(self) -> dict[str, Any]:
        """Return the results of the metrics from this rank's sums."""
        kept = []
        for metric in self._model.metrics:
            variables = [each.value for each in metric.variables]
            if all(self._sums.get(id(variable)) is not None for variable in variables):
                kept += [(variable, variable.numpy()) for variable in variables]
        for variable, _ in kept:
            variable.assign(tf.cast(self._sums[id(variable)], variable.dtype))
        try:
            results = self._model.get_metrics_result()
        finally:
            for variable, value in kept:
                variable.assign(value)
        arrays = {key: array_of(value) for key, value in results.items()}
        return {key: array if array.ndim else float(array) for key, array in arrays.items()}


def keep_own_logs(model: Any) -> None:
    """Let the steps of a distributed model keep the logs of this rank's samples. Local."""
    if model._tnt_owner.own_logs is None:
        model._tnt_owner.own_logs = OwnLogs(model)
        model.train_function = model.test_function = None  # whose graphs keep none


def why_not_compared(traced: TracedStep, options: StepOptions) -> str | None:
    """Return what a step does that cannot be taken back or differs by intent, None if nothing."""
    for node in traced.flat.nodes:
        if node.type in _EFFECTS:
            return f"the effect of {node.type} cannot be undone"
        if node.body is not None:
            return "batch normalisation takes the statistics of each rank's rows"
        if options.draws == "local" and is_draw(node.type):
            return "each rank draws random numbers of its own"
    return None


def compare_with_serial(
    name: str, traced: TracedStep, whole: Sequence[tf.Tensor], run: Callable[[], Any]
) -> None:
    """Run a step serially and on all ranks, and compare what both return and assign. Collective.

    Afterwards all variables have the values that they had. A difference is a fault if it is larger
    than rounding, and much larger than what a change of all numbers in their last digits does to
    the serial step: an optimizer may divide a gradient of nothing but rounding by its size.
    """
    before = [variable.numpy() for variable in traced.variables]

    def outcome(step: Callable[[], Any], values: Sequence[Any] = before) -> list[Array]:
        try:
            _assign(traced.variables, values)
            returned = tf.nest.flatten(step(), expand_composites=True)
            tensors = [each for each in returned if tf.is_tensor(each)]
            return [array_of(each) for each in (*tensors, *traced.variables)]
        finally:
            _assign(traced.variables, before)

    try:
        serial = outcome(lambda: traced.concrete_function(*whole))
    except tf.errors.OpError as error:  # on all ranks: the largest 7 of 5 rows, say
        first = str(error).partition("\n")[0]
        logger.info("%s is not checked: serially it fails on so few rows (%s)", name, first)
        return
    partitioned = outcome(run)
    used = {dtype.name for node in traced.flat.nodes for dtype in node.dtypes}
    bound = max((bound for name, bound in _BOUNDS.items() if name in used), default=0.0)
    if all(_are_close(one, other, bound) for one, other in zip(serial, partitioned, strict=True)):
        return
    given = [tf.constant(_with_other_digits(array_of(each), bound)) for each in whole]
    changed = outcome(
        lambda: traced.concrete_function(*given),
        [_with_other_digits(value, bound) for value in before],
    )
    for one, other, sensitive, what in zip(
        serial, partitioned, changed, _names(traced), strict=True
    ):
        if not _are_close(one, other, bound, sensitive):
            logger.error(
                "`%s` on several ranks differs from the serial step, which is a bug in "
                "Tarantella: %s is %s in the serial step and %s here. Please report it.",
                *(name, what, _shown(one), _shown(other)),
            )


def _assign(variables: Sequence[tf.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _names(traced: TracedStep) -> list[str]:
    """Return what results and variables are, with the operations that they come from."""
    flat = traced.flat
    names = [f"result {i} ({_described(edge)})" for i, edge in enumerate(flat.outputs)]
    handles = flat.arguments[len(flat.arguments) - len(traced.captures) :]
    places = {id(captured): n for captured, n in zip(traced.captures, handles, strict=True)}
    assigned = {
        node.inputs[0][0]: _described(node.inputs[-1])
        for node in flat.nodes
        if node.has_effect and node.inputs
    }
    for variable in traced.variables:
        handle = places.get(id(variable.handle))
        source = None if handle is None else assigned.get(handle)
        names.append(repr(variable.name) + (f" ({source})" if source else ""))
    return names


def _described(edge: Edge) -> str:
    node, _ = past_aliases(edge)
    line = users_line(node)
    return f"{node.type} {node.name!r}" + (f", {line}" if line else "")


def _with_other_digits(array: Array, bound: float) -> Array:
    """Return the array with changed last digits, if it holds floats."""
    if str(array.dtype) not in _BOUNDS:
        return array
    noise = np.random.default_rng(0).uniform(-1, 1, array.shape) * bound / 100
    return (array.astype(np.float64) * (1 + noise)).astype(array.dtype)


def _are_close(one: Array, other: Array, bound: float, sensitive: Array | None = None) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if str(one.dtype) not in _BOUNDS:
        moves = sensitive is not None and not np.array_equal(one, sensitive)
        return moves or bool(np.array_equal(one, other))
    first, second = one.astype(np.float64), other.astype(np.float64)
    allowed = bound * float(np.max(np.abs(first), where=np.isfinite(first), initial=1e-3))
    if sensitive is not None and sensitive.shape == one.shape:
        moved = np.abs(sensitive.astype(np.float64) - first)
        allowed += 10 * float(np.max(moved, where=np.isfinite(moved), initial=0))
    return bool(np.allclose(first, second, rtol=0, atol=allowed, equal_nan=True))


def _shown(array: Array) -> str:
    return np.array2string(array.reshape(-1)[:4], precision=6) + f" of shape {array.shape}"
