"""The traces of one kind of step, as plain Keras would have made them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_keras.calls.agree import compared_at_once, require_same
from tnt_keras.partition import TracedStep, build_without_batch, trace
from tnt_keras.step.accumulation import Accumulations
from tnt_keras.step.batch_norm_region import Normalisations, marked_batch_norm
from tnt_keras.step.compared_settings import require_same_layers, require_same_optimizers
from tnt_keras.step.generators import generators_of_master
from tnt_keras.step.owner import StepOwner, step_scope
from tnt_keras.step.signature import (
    Layout,
    Signature,
    Specs,
    covers,
    present_specs,
    relaxed,
    traced_specs,
)
from tnt_keras.step.variables import backing, metric_variables, synchronize_new


@dataclasses.dataclass(frozen=True, eq=False)
class StepTrace:
    """A step as it was traced for batches of a layout and of some shapes."""

    layout: Layout
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
        self, name: str, step: Callable[[Any], Any], owner: StepOwner, *, traces_exactly: bool
    ) -> None:
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
        of_layout = [known for known in self._known if known.layout == signature.layout]
        for known in reversed(of_layout):
            if covers(known.specs, signature.specs):
                return known
        specs = traced_specs(signature.specs, present_specs(element_spec, signature.layout))
        if not self._traces_exactly:
            common = (relaxed(specs, known.specs) for known in reversed(of_layout))
            specs = next((each for each in common if each is not None), specs)
        try:
            with (
                generators_of_master(),
                step_scope(self._owner),
                marked_batch_norm(self._owner.options) as normalisations,
            ):
                step = _flat_step(self._step, batch)
                traced = trace(step, list(specs), self._made_at_once)
        except Exception:
            if self._traces_exactly and signature.lacks_sizes:
                return None
            raise
        with compared_at_once(f"trace of {self._name}", after_building=True):
            require_same_optimizers(self._owner.optimizers)
            if self._owner.model is not None:
                require_same_layers(self._owner.model)
            self._compare(traced)
            synchronize_new(self._owner, _in_order_of_use(traced))
        accumulations = Accumulations(traced, self._owner.optimizers)
        made = StepTrace(signature.layout, specs, traced, normalisations, accumulations)
        self._known.append(made)
        return made

    def _made_at_once(self) -> list[tf.Variable]:
        return [backing(variable) for variable in metric_variables(self._owner)]

    def _compare(self, traced: TracedStep) -> None:
        """Compare what ranks have traced: types, attributes, edges and constants. Collective."""
        require_same(
            f"`{self._name}` is not the same on all ranks",
            traced.description(),
            "All ranks must trace the same step. Does its Python code ask for the rank, go through "
            "a set, or use numbers of `numpy` or `random`?",
        )


def _in_order_of_use(traced: TracedStep) -> list[tf.Variable]:
    """Return the variables that a step uses in an order that is the same on all ranks."""
    by_handle = {id(variable.handle): variable for variable in traced.variables}
    return [by_handle[id(each)] for each in traced.captures if id(each) in by_handle]


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
