"""The functions that compute a step for batches of one form, built when they are needed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.calls.errors import MARK_OF_CHECKS
from tnt_keras.exchange.step_channels import StepChannels
from tnt_keras.exchange.step_exchange import StepExchange
from tnt_keras.partition import (
    REPLICATED,
    Input,
    PartitionedStep,
    Replicas,
    Request,
    Sharded,
    build,
)
from tnt_keras.process.output import logger
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.batch_forms import Form, Unknown
from tnt_keras.step.batch_part import BatchPart, has_rows
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.signature import Signature
from tnt_keras.step.traced_steps import StepTrace

_LARGEST_EXACT = 2**24  # of float32, in which most sums of a step travel
_DIFFERENT = (
    "Ranks have read batches of different sizes, which have no parts in common. All ranks must be "
    "given the same data."
)
_SHAPE_OF_SPARSE = 2  # the place of the shape among the components of a sparse tensor


@dataclasses.dataclass(frozen=True, eq=False)
class FormFunctions:
    """What computes steps of batches of one form: a function for each choice of updates."""

    name: str
    owner: StepOwner
    trace: StepTrace
    inputs: list[Input]
    num_rows: int | Unknown | None  # of the batch; None: each rank computes all of it
    built: dict[tuple[bool, ...], PartitionedStep] = dataclasses.field(default_factory=dict)

    @property
    def is_for_any_rows(self) -> bool:
        """Whether the number of rows is given with each batch, behind its tensors."""
        return isinstance(self.num_rows, Unknown)

    @functools.cached_property
    def added(self) -> list[tf.Variable]:
        """The variables of metrics whose addends are wanted, of those that the step uses."""
        own_logs = None if self.name == "predict_step" else self.owner.own_logs
        used = {id(variable) for variable in self.trace.traced.variables}
        wanted = [] if own_logs is None else own_logs.variables()
        return [each for each in wanted if id(each) in used]

    def for_updates(self, are_updates: tuple[bool, ...]) -> PartitionedStep:
        """Return what computes a step. Collective if it must be built."""
        if are_updates not in self.built:
            self.built[are_updates] = self._build(are_updates)
        return self.built[are_updates]

    def _build(self, are_updates: tuple[bool, ...]) -> PartitionedStep:
        trace, size = self.trace, get_size()
        # They make a variable. Made while a graph is traced, it would be traced a second time.
        channels = self.owner.channels(self.name)
        exchanges: list[CheckedExchange] = []

        def make_exchange(tensors: Sequence[tf.Tensor]) -> CheckedExchange:
            unknown = [
                tf.shape(tensor, tf.int64)[axis]
                for given, tensor in zip(self.inputs, tensors, strict=False)
                for axis, known in enumerate(given.shape or ())
                if known is None and given.placement != Sharded(axis)
            ]
            num_rows = tensors[-1] if self.is_for_any_rows else self.num_rows or size
            exchanges.append(CheckedExchange(channels, [num_rows, *unknown]))
            return exchanges[-1]

        built = build(
            trace.traced,
            self.inputs,
            Replicas(get_rank(), 1, size),
            None if isinstance(self.num_rows, Unknown) else self.num_rows or size,
            make_exchange,
            accumulators=trace.accumulations.variables,
            partial_sums_of=self.added,
            decide=trace.accumulations.decide(are_updates),
            draws_own_rows=self.owner.options.draws == "local",
        )
        num_buckets = exchanges[-1].num_buckets
        built.explanation = dataclasses.replace(built.explanation, num_buckets=num_buckets)
        logger.debug(
            "%s for inputs of shapes %s: traced in %.2f s and partitioned in %.2f s of processor "
            "time; %s",
            self.name,
            ", ".join(str(tf.TensorShape(each.shape)) for each in self.inputs),
            trace.traced.seconds,
            built.seconds,
            built.explanation.summary,
        )
        return built


class CheckedExchange(StepExchange):
    """The exchanges of one graph; in the last one ranks compare the sizes of their batches."""

    def __init__(self, channels: StepChannels, sizes: Sequence[int | tf.Tensor]) -> None:
        super().__init__(channels)
        self._sizes = sizes

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all that was asked for, as `StepExchange.flush`. Collective."""
        if not last:
            return super().flush(last)
        exact = tf.stack([tf.cast(size, tf.int64) for size in self._sizes])
        own = tf.cast(exact % (_LARGEST_EXACT // get_size()), tf.float32)
        self.ask(Request("sum", own, "sizes of the batch", "", is_update=False))
        *results, sums = super().flush(last)
        are_right = tf.reduce_all(sums == own * tf.cast(get_size(), tf.float32))
        tf.debugging.Assert(are_right, [MARK_OF_CHECKS + _DIFFERENT])
        return results


def inputs_of(part: BatchPart, signature: Signature, form: Form, is_cut: bool) -> list[Input]:
    """Return what a partition is called with: components of leaves of the whole batch. Local."""
    inputs = []
    present = [(i, leaf) for i, leaf in enumerate(tf.nest.flatten(part.rows)) if leaf is not None]
    specs = signature.in_form(form).specs
    of_leaves = zip(present, specs, signature.of_leaves(form), strict=True)
    for (i, leaf), spec, sizes in of_leaves:
        is_whole = not is_cut or i in part.shared or not has_rows(leaf)
        if isinstance(leaf, tf.Tensor):
            shape = tuple(None if isinstance(size, Unknown) else size for size in sizes)
            sizes_of_example = [s.example if isinstance(s, Unknown) else s for s in sizes]
            known = tuple(size for size in sizes_of_example if size is not None)
            example = known if len(known) == len(sizes) else None
            inputs.append(Input(shape, REPLICATED if is_whole else Sharded(0), example))
            continue
        for place, component in enumerate(tf.nest.flatten(spec, expand_composites=True)):
            is_shape = isinstance(spec, tf.SparseTensorSpec) and place == _SHAPE_OF_SPARSE
            elements = tuple(spec.shape) if is_shape else None
            inputs.append(Input(tuple(component.shape), REPLICATED, elements=elements))
    return inputs
