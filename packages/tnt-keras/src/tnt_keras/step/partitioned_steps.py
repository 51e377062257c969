"""The functions of one kind of step: one for each shape of the batch, built when it comes first."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.step_channels import StepChannels
from tnt_keras.partition import REPLICATED, Input, Lanes, PartitionedStep, Rows, build
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.batch_part import BatchPart, cut, even_sizes, has_rows, rows_at
from tnt_keras.step.check import compare_with_serial, num_compared_rows, why_not_compared
from tnt_keras.step.checked_exchange import CheckedExchange
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.report import StepReport
from tnt_keras.step.signature import Signature, layout_of, specs_of
from tnt_keras.step.traced_steps import StepTrace, TracedSteps
from tnt_keras.step.whole_batch import whole_batch


class PartitionedSteps:
    """One kind of step of a model, or a function of the user's own, on all ranks.

    A step is traced as plain Keras does, and partitioned for each shape of the batch. Tracing and
    building are collective: all ranks meet a shape in the same step.

    Args:
        name: Of the step: "train_step". For messages.
        step: Called with a batch while it is traced; what it returns is structured as the result.
        owner: Of the step.
        traces_exactly: As for `TracedSteps`.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Any], Any],
        owner: StepOwner,
        *,
        traces_exactly: bool = False,
    ) -> None:
        self.name = name
        self._owner = owner
        self._traces = TracedSteps(name, step, owner, traces_exactly=traces_exactly)
        self._shapes: dict[Any, _Shape] = {}
        self._is_checked = False
        self._reports: dict[tuple[bool, tuple[bool, ...]], StepReport] = {}

    @property
    def graph(self) -> Any:
        """The graph of the step that was traced last, None before the first one."""
        last = self._traces.last
        return None if last is None else last.traced.graph

    @property
    def tables(self) -> list[str]:
        """As for `Steps`; several if not each step updates weights."""
        return [report.table for report in self._reports.values()]

    def run(self, part: BatchPart, element_spec: Any = None) -> Any:
        """Compute a step, and return its result for the whole batch. Collective.

        Args:
            part: Of this rank.
            element_spec: The spec of the batches as this rank reads them from a dataset; None if
                they come otherwise, such as arrays.
        """
        part, is_cut = _as_it_can_be_cut(part)
        shape, tensors = self._shape_of(part, is_cut, element_spec)
        if self._owner.options.check and not self._is_checked and is_cut:
            self._is_checked = True
            self._compare_with_serial(part, shape.trace, element_spec)
        are_updates = shape.trace.accumulations.begin_step()
        function = self._function(shape, are_updates)
        if (is_cut, are_updates) not in self._reports:
            self._report(shape, are_updates, function, part.num_global)
        if not shape.added:
            return function(*tensors)
        result, addends = function.with_addends(*tensors)
        own_share = 1.0 if is_cut else get_size() * part.num_local / part.num_global
        self._owner.own_logs.add(self.name, shape.added, addends, own_share)
        return result

    def run_without_batch(self) -> None:
        """Do what a step does that needs no batch, where plain Keras looks for one in vain. Local.

        Keras finds the end of data of unknown length by such a step, in which `iterations` counts
        one more and seeds advance.
        """
        last = self._traces.last
        if last is not None and last.without_batch is not None:
            last.without_batch()

    def _shape_of(
        self, part: BatchPart, is_cut: bool, element_spec: Any
    ) -> tuple[_Shape, list[tf.Tensor]]:
        """Return the shape of a batch, and the tensors of this rank's part. Collective at first."""
        leaves = tf.nest.flatten(part.rows)
        present = [leaf for leaf in leaves if leaf is not None]
        layout = layout_of(part.rows, leaves)
        sizes = tuple((leaf.dtype, tuple(leaf.shape)) for leaf in present)
        key = layout, is_cut, part.num_global, sizes
        shape = self._shapes.get(key)
        if shape is None:
            signature = Signature(layout, specs_of(present, part.num_global))
            trace = self._traces.for_batch(signature, part.rows, element_spec)
            num_rows = part.num_global if is_cut else None
            inputs, added = _inputs(present, num_rows), self._added(trace)
            shape = self._shapes[key] = _Shape(trace, inputs, num_rows, added)
        return shape, tf.nest.flatten(present, expand_composites=True)

    def _report(
        self, shape: _Shape, are_updates: tuple[bool, ...], built: PartitionedStep, num_rows: int
    ) -> None:
        title = f"{self.name} on {get_size()} ranks"
        if are_updates and not any(are_updates):
            title += ", without an update"
        is_cut = shape.num_rows is not None
        report = self._reports[is_cut, are_updates] = StepReport(
            title, built.explanation, is_cut, len(built.own_draws)
        )
        report.announce(shape.trace.normalisations, num_rows)

    def _function(self, shape: _Shape, are_updates: tuple[bool, ...]) -> PartitionedStep:
        """Return what computes a step for a shape. Collective if it must be built."""
        function = shape.functions.get(are_updates)
        if function is None:
            function = shape.functions[are_updates] = self._build(shape, are_updates)
        return function

    def _compare_with_serial(self, part: BatchPart, trace: StepTrace, element_spec: Any) -> None:
        """Compare the step with the serial one on some rows of a batch. Collective."""
        reason = why_not_compared(trace.traced, self._owner.options)
        if reason is None and trace.accumulations.variables:
            reason = "gradients are accumulated over several steps"
        if reason is not None:
            logger.info("%s is not checked: %s", self.name, reason)
            return
        is_for_any_size = all(spec.shape.rank == 0 or not spec.shape[0] for spec in trace.specs)
        num_rows = min(part.num_global, num_compared_rows() if is_for_any_size else sys.maxsize)
        some = tf.range(num_rows, dtype=tf.int64)
        whole = tf.nest.map_structure(
            lambda leaf: rows_at(leaf, some) if has_rows(leaf) else leaf, whole_batch(part)
        )
        shape, tensors = self._shape_of(cut(whole), True, element_spec)
        of_all = [leaf for leaf in tf.nest.flatten(_as_tensors(whole)) if leaf is not None]
        compare_with_serial(
            self.name, trace.traced, of_all, lambda: self._function(shape, ())(*tensors)
        )

    def _added(self, trace: StepTrace) -> list[tf.Variable]:
        """Return the variables of metrics whose addends are wanted, of those that a step uses."""
        if self._owner.own_logs is None or self.name == "predict_step":
            return []
        used = {id(variable) for variable in trace.traced.variables}
        return [each for each in self._owner.own_logs.variables() if id(each) in used]

    def _build(self, shape: _Shape, are_updates: tuple[bool, ...]) -> PartitionedStep:
        accumulations = shape.trace.accumulations
        size = get_size()
        # They make a variable. Made while a graph is traced, it would be traced a second time.
        channels = self._owner.channels(self.name)
        exchanges: list[CheckedExchange] = []

        def make_exchange() -> CheckedExchange:
            exchanges.append(_exchange(channels, shape.num_rows))
            return exchanges[-1]

        built = build(
            shape.trace.traced,
            shape.inputs,
            Lanes(get_rank(), 1, size),
            size if shape.num_rows is None else shape.num_rows,
            make_exchange,
            accumulators=accumulations.variables,
            addends_of=shape.added,
            decide=accumulations.decide(are_updates),
            draws_own_rows=self._owner.options.draws == "local",
        )
        num_buckets = exchanges[-1].num_buckets
        built.explanation = dataclasses.replace(built.explanation, num_buckets=num_buckets)
        return built


@dataclasses.dataclass(frozen=True, eq=False)
class _Shape:
    """One shape of the batch.

    Attributes:
        trace: Of the step.
        inputs: Of the partition.
        num_rows: Of the batch; None if each rank computes all of it.
        added: The variables whose addends are wanted.
        functions: What was built, by which optimizers update weights.
    """

    trace: StepTrace
    inputs: list[Input]
    num_rows: int | None
    added: list[tf.Variable]
    functions: dict[tuple[bool, ...], PartitionedStep] = dataclasses.field(default_factory=dict)


def _exchange(channels: StepChannels, num_rows: int | None) -> CheckedExchange:
    if num_rows is None:
        return CheckedExchange(channels, 1, get_size())
    return CheckedExchange(channels, even_sizes(num_rows)[get_rank()], num_rows)


def _as_it_can_be_cut(part: BatchPart) -> tuple[BatchPart, bool]:
    """Return the part whose rows each rank computes, or the whole batch, which all compute."""
    is_whole = part.num_global < get_size() or any(
        isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)) for leaf in tf.nest.flatten(part.rows)
    )
    if is_whole:
        return dataclasses.replace(part, rows=_as_tensors(whole_batch(part))), False
    return (part if part.is_cut_evenly else cut(whole_batch(part))), True


def _inputs(present: Sequence[Any], num_rows: int | None) -> list[Input]:
    """Return what the partition is called with: components of leaves of the whole batch."""
    inputs = []
    for component in tf.nest.flatten(present, expand_composites=True):
        is_cut = num_rows is not None and has_rows(component)
        shape = (num_rows, *component.shape[1:]) if is_cut else tuple(component.shape)
        inputs.append(Input(shape, Rows(0) if is_cut else REPLICATED))
    return inputs


def _as_tensors(batch: Any) -> Any:
    return tf.nest.map_structure(
        lambda leaf: leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf),
        batch,
    )
