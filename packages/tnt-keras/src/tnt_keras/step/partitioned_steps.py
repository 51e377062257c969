"""The functions of one kind of step: one for each shape of the batch, built when it comes first."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.partition import REPLICATED, Input, Lanes, Rows, build, trace
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.batch_norm_region import marked_batch_norm
from tnt_keras.step.batch_part import BatchPart, cut, has_rows
from tnt_keras.step.comparison import compare_traces, require_same_settings
from tnt_keras.step.context import step_scope
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.signature import (
    Layout,
    Signature,
    Specs,
    covers,
    layout_of,
    relaxed,
    specs_of,
    traced_specs,
)
from tnt_keras.step.variables import synchronize_new
from tnt_keras.step.whole_batch import whole_batch


@dataclasses.dataclass(frozen=True, eq=False)
class _Trace:
    """A step as it was traced for batches of a layout and of some shapes."""

    layout: Layout
    specs: Specs
    traced: Any


class PartitionedSteps:
    """One kind of step of a model, or a function of the user's own, on all ranks.

    A step is traced as plain Keras does, and partitioned for each shape of the batch. Tracing and
    building are collective: all ranks meet a shape in the same step.

    Args:
        name: Of the step: "train_step". For messages.
        step: Called with a batch while it is traced; what it returns is structured as the result.
        owner: Of the step.
        traces_exactly: Whether there is a trace for each shape, as in a `tf.function`.
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
        self._traces_exactly = traces_exactly
        self._step = step
        self._owner = owner
        self._traces: list[_Trace] = []
        self._functions: dict[Any, Any] = {}

    @property
    def graph(self) -> Any:
        """The graph of the step that was traced last, None before the first one."""
        return self._traces[-1].traced.graph if self._traces else None

    @property
    def partitions(self) -> list[Any]:
        """What was built so far."""
        return list(self._functions.values())

    def run(self, part: BatchPart, element_spec: Any = None) -> Any:
        """Compute a step, and return its result for the whole batch. Collective.

        Args:
            part: Of this rank.
            element_spec: The spec of the batches as this rank reads them from a dataset; None if
                they come otherwise, such as arrays.
        """
        part, is_cut = self._as_it_can_be_cut(part)
        leaves = tf.nest.flatten(part.rows)
        present = [leaf for leaf in leaves if leaf is not None]
        layout = layout_of(part.rows, leaves)
        key = (
            layout,
            is_cut,
            part.num_global,
            tuple((leaf.dtype, tuple(leaf.shape)) for leaf in present),
        )
        function = self._functions.get(key)
        if function is None:
            signature = Signature(layout, specs_of(present, part.num_global))
            function = self._build(signature, part, present, is_cut, element_spec)
            self._functions[key] = function
        return function(*tf.nest.flatten(present, expand_composites=True))

    def run_without_batch(self) -> None:
        """Do what a step does that needs no batch, where plain Keras looks for one in vain. Local.

        Keras finds the end of data of unknown length by such a step, in which `iterations` counts
        one more and seeds advance.
        """
        if self._traces:
            self._traces[-1].traced.run_without_arguments()

    def _as_it_can_be_cut(self, part: BatchPart) -> tuple[BatchPart, bool]:
        """Return the part whose rows each rank computes, or the whole batch, which all compute."""
        is_whole = part.num_global < get_size() or any(
            isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor))
            for leaf in tf.nest.flatten(part.rows)
        )
        if is_whole:
            return dataclasses.replace(part, rows=_as_tensors(whole_batch(part))), False
        return (part if part.is_cut_evenly else cut(whole_batch(part))), True

    def _build(
        self,
        signature: Signature,
        part: BatchPart,
        present: Sequence[Any],
        is_cut: bool,
        element_spec: Any,
    ) -> Any:
        traced = self._trace_for(signature, part.rows, element_spec)
        inputs = [
            Input(shape, Rows(0) if is_cut and shape else REPLICATED)
            for shape in _shapes(present, part.num_global if is_cut else None)
        ]
        size = get_size()
        built = build(
            traced,
            inputs,
            Lanes(get_rank(), 1, size),
            part.num_global if is_cut else size,
            self._make_exchange,
        )
        if not self._functions:
            logger.info("%s on %d ranks", self.name, size)
        logger.debug("%s for %s", self.name, signature.specs)
        return built

    def _trace_for(self, signature: Signature, batch: Any, element_spec: Any) -> Any:
        """Return a trace that holds for a signature. Collective if it must be made."""
        of_layout = [known for known in self._traces if known.layout == signature.layout]
        for known in reversed(of_layout):
            if covers(known.specs, signature.specs):
                return known.traced
        specs = traced_specs(signature.specs, _present_specs(element_spec, signature.layout))
        for known in [] if self._traces_exactly else reversed(of_layout):
            common = relaxed(specs, known.specs)
            if common is not None:
                specs = common
                break
        with self._tracing():
            traced = trace(_flat_step(self._step, batch), list(specs))
        require_same_settings(self._owner)
        compare_traces(self.name, traced)
        synchronize_new(self._owner, traced.graph.variables)
        self._traces.append(_Trace(signature.layout, specs, traced))
        return traced

    @contextlib.contextmanager
    def _tracing(self) -> Iterator[None]:
        with step_scope(self._owner), marked_batch_norm(self._owner.options):
            yield

    def _make_exchange(self) -> Any:
        return self._owner.make_exchange(self.name)


def _flat_step(step: Callable[[Any], Any], batch: Any) -> Callable[..., Any]:
    """Return the step as a function of the leaves that are not None."""
    like = tf.nest.map_structure(lambda leaf: leaf is not None, batch)
    is_present = tf.nest.flatten(like)

    def flat(*leaves: Any) -> Any:
        given = iter(leaves)
        return step(
            tf.nest.pack_sequence_as(like, [next(given) if each else None for each in is_present])
        )

    return flat


def _shapes(present: Sequence[Any], num_rows: int | None) -> list[tuple[int, ...]]:
    """Return the shapes of the components of the whole batch, given its number of rows."""
    components = tf.nest.flatten(present, expand_composites=True)
    return [
        tuple(each.shape) if num_rows is None or not has_rows(each) else (num_rows, *each.shape[1:])
        for each in components
    ]


def _present_specs(element_spec: Any, layout: Layout) -> list[Any] | None:
    if element_spec is None:
        return None
    specs = tf.nest.flatten(element_spec)
    if len(specs) != len(layout.is_present):  # None is no leaf of a dataset's
        return specs
    return [spec for spec, is_present in zip(specs, layout.is_present, strict=True) if is_present]


def _as_tensors(batch: Any) -> Any:
    return tf.nest.map_structure(
        lambda leaf: leaf if leaf is None or tf.is_tensor(leaf) else tf.convert_to_tensor(leaf),
        batch,
    )
