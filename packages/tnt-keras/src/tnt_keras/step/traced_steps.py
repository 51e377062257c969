"""The traces of one kind of step, and the functions built of them for batches of one form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.calls.agree import compared_at_once, require_same
from tnt_keras.partition import (
    REPLICATED,
    Exchange,
    Input,
    PartitionedStep,
    Replicas,
    Request,
    Sharded,
    TracedStep,
    build,
    build_without_batch,
    draws_without_seed,
    is_python,
    trace,
    users_line,
)
from tnt_keras.process.lanes import given_lanes, lanes_at_once, row_split
from tnt_keras.process.rank import get_size, logger
from tnt_keras.process.step_hashes import note, step_hashes
from tnt_keras.step.accumulation import Accumulations
from tnt_keras.step.batch import Part, has_rows
from tnt_keras.step.batch_norm_region import Normalisations, marked_batch_norm
from tnt_keras.step.owner import StepOwner, step_scope
from tnt_keras.step.replicas import (
    backing,
    metric_variables,
    set_generator_states,
    synchronize_new,
    use_generators_of_master,
)
from tnt_keras.step.settings import require_same_layers, require_same_optimizers
from tnt_keras.step.signature import (
    Form,
    Signature,
    Specs,
    Unknown,
    covers,
    present_specs,
    relaxed,
    traced_specs,
)


@dataclasses.dataclass(frozen=True, eq=False)
class StepTrace:
    """A step as it was traced for batches of a layout and of some shapes."""

    layout: Hashable
    specs: Specs
    traced: TracedStep
    normalisations: Normalisations
    accumulations: Accumulations

    @functools.cached_property
    def without_batch(self) -> Callable[[], None] | None:
        """What the step does that needs no batch, None if that is nothing."""
        num_inputs = len(tf.nest.flatten(list(self.specs), expand_composites=True))
        return build_without_batch(self.traced, num_inputs)


class TracedSteps:
    """One kind of step, traced for each layout of batches, and anew for shapes that are others.

    `traces_exactly`: there is a trace for each shape, as in a `tf.function`; else the sizes that
    differ become None.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Any], Any],
        owner: StepOwner,
        *,
        traces_exactly: bool,
        compiles: bool,
    ) -> None:
        self.compiles = compiles  # with XLA, for which TensorFlow traces loops in another way
        self._name = name
        self._step = step
        self._owner = owner
        self._traces_exactly = traces_exactly
        self._known: list[StepTrace] = []

    @property
    def last(self) -> StepTrace | None:
        """The trace that was made last, None before the first one."""
        return self._known[-1] if self._known else None

    def for_batch(self, signature: Signature, batch: Any, element_spec: Any) -> StepTrace | None:
        """Return a trace that holds for a signature. Collective if it must be made.

        What is made while the step is traced gets the master's values, and ranks compare their
        traces. There is None if a step, traced exactly until now, asks in Python for a size that is
        not known.
        """
        owner = self._owner
        of_layout = [known for known in self._known if known.layout == signature.layout]
        for known in reversed(of_layout):
            if covers(known.specs, signature.specs):
                return known
        specs = traced_specs(signature.specs, present_specs(element_spec, batch))
        if not self._traces_exactly:
            common = (relaxed(specs, known.specs) for known in reversed(of_layout))
            specs = next((each for each in common if each is not None), specs)
        former = use_generators_of_master()
        try:
            with step_scope(owner), marked_batch_norm(owner.options) as normalisations:
                step = _flat_step(self._step, batch)
                traced = trace(
                    step,
                    list(specs),
                    lambda: list(map(backing, metric_variables(owner))),
                    compiles=self.compiles,
                )
        except Exception:
            if self._traces_exactly and signature.lacks_sizes:
                return None
            raise
        finally:
            set_generator_states(former)
        with compared_at_once(f"trace of {self._name}", after_building=True):
            require_same_optimizers(owner.optimizers)
            if owner.model is not None:
                require_same_layers(owner.model)
            require_same(
                f"`{self._name}` is not the same on all ranks",
                [f"{row_split().lanes} lanes", *traced.description()],
                "All ranks must trace the same step. Does its Python code ask for the rank, "
                "iterate over a set, or draw numbers from `numpy` or `random`?",
            )
            by_handle = {id(variable.handle): variable for variable in traced.variables}
            used = [by_handle[id(each)] for each in traced.captures if id(each) in by_handle]
            synchronize_new(owner, used)  # in an order that is the same on all ranks
        accumulations = Accumulations(traced, owner.optimizers)
        _note_what_may_differ(self._name, traced)
        made = StepTrace(signature.layout, specs, traced, normalisations, accumulations)
        self._known.append(made)
        return made


def _note_what_may_differ(name: str, traced: TracedStep) -> None:
    """Note what may give other numbers in another run, if hashes of steps are written. Local."""
    for node in traced.flat.nodes if step_hashes() is not None else ():
        place = users_line(node) or f"operation {node.name}"
        if is_python(node):
            note("python", f"{name} calls Python code ({place})")
        elif draws_without_seed(node):
            note("draw", f"{name} draws numbers without a seed ({place})")


def _flat_step(step: Callable[[Any], Any], batch: Any) -> Callable[..., Any]:
    """Return the step as a function of the leaves that are not None."""
    like = tf.nest.map_structure(lambda leaf: leaf is not None, batch)
    is_present = tf.nest.flatten(like)

    def flat(*batch: Any) -> Any:  # so are the inputs called in reports
        given = iter(batch)
        return step(
            tf.nest.pack_sequence_as(like, [next(given) if each else None for each in is_present])
        )

    return flat


_LARGEST_EXACT = 2**24  # of float32, in which most sums of a step travel
_SHAPE_OF_SPARSE = 2  # the place of the shape among the components of a sparse tensor


@dataclasses.dataclass(frozen=True, eq=False)
class FormFunctions:
    """What computes steps of batches of one form: a function for each choice of updates."""

    name: str
    owner: StepOwner
    trace: StepTrace
    inputs: list[Input]
    num_rows: int | Unknown | None  # of the batch; None: each rank computes all of it
    compiles: bool  # with XLA
    built: dict[tuple[bool, ...], PartitionedStep] = dataclasses.field(default_factory=dict)

    @property
    def is_for_any_rows(self) -> bool:
        """Whether the number of rows is given with each batch, behind its tensors."""
        return isinstance(self.num_rows, Unknown)

    @functools.cached_property
    def added(self) -> list[tf.Variable]:
        """The variables of metrics whose partial sums are wanted, of those that the step uses."""
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
        trace, split = self.trace, row_split()
        # They make a variable. Made while a graph is traced, it would be traced a second time.
        channels = self.owner.channels(self.name)

        exchanges: list[Any] = []

        def make_exchange(tensors: Sequence[tf.Tensor]) -> Exchange:
            exchanges.append(channels.new_exchange(self._sizes_of(tensors)))
            return exchanges[-1]

        built = build(
            trace.traced,
            self.inputs,
            Replicas(
                split.own_lanes.start,
                len(split.own_lanes),
                split.lanes,
                are_lanes=given_lanes() is not None,
                at_once=lanes_at_once(),
            ),
            None if isinstance(self.num_rows, Unknown) else self.num_rows or split.lanes,
            make_exchange,
            accumulators=trace.accumulations.variables,
            partial_sums_of=self.added,
            decide=trace.accumulations.decide(are_updates),
            draws_own_rows=self.owner.options.draws == "local",
            compiles=self.compiles,
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

    def _sizes_of(self, tensors: Sequence[tf.Tensor]) -> Request:
        """Return the sizes of a batch that the function does not know, to be compared."""
        of_inputs, place = [], 0
        for given in self.inputs:  # of each with rows there is a tensor for each lane
            of_inputs.append(tensors[place])
            place += len(row_split().own_lanes) if given.placement != REPLICATED else 1
        sizes = [
            tf.shape(tensor, tf.int64)[axis]
            for given, tensor in zip(self.inputs, of_inputs, strict=True)
            for axis, known in enumerate(given.shape or ())
            if known is None and given.placement != Sharded(axis)
        ]
        sizes.insert(0, tensors[-1] if self.is_for_any_rows else self.num_rows or get_size())
        exact = tf.stack([tf.cast(size, tf.int64) for size in sizes])
        own = tf.cast(exact % (_LARGEST_EXACT // get_size()), tf.float32)
        return Request("sum", own, "sizes of the batch", "", is_update=False)


def inputs_of(part: Part, signature: Signature, form: Form) -> list[Input]:
    """Return what a partition is called with: components of leaves of the whole batch. Local."""
    inputs = []
    specs = signature.in_form(form).specs
    for (leaf, is_shared), spec, sizes in zip(
        part.leaves, specs, signature.of_leaves(form), strict=True
    ):
        if isinstance(leaf, tf.Tensor):
            is_whole = not signature.is_cut or is_shared or not has_rows(leaf)
            shape = tuple(None if isinstance(size, Unknown) else size for size in sizes)
            of_example = (s.example if isinstance(s, Unknown) else s for s in sizes)
            known = tuple(size for size in of_example if size is not None)
            example = known if len(known) == len(sizes) else None
            inputs.append(Input(shape, REPLICATED if is_whole else Sharded(0), example))
            continue
        for place, component in enumerate(tf.nest.flatten(spec, expand_composites=True)):
            is_shape = isinstance(spec, tf.SparseTensorSpec) and place == _SHAPE_OF_SPARSE
            elements = tuple(spec.shape) if is_shape else None
            inputs.append(Input(tuple(component.shape), REPLICATED, elements=elements))
    return inputs
