"""The functions of one kind of step: one for each form of the batch, built when it comes first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.calls.current_call import give_up
from tnt_keras.calls.messages import allgather_json
from tnt_keras.partition import PartitionedStep, PartitionError
from tnt_keras.process.lanes import given_lanes, num_lanes, row_split
from tnt_keras.process.rank import get_size, logger
from tnt_keras.step.batch import (
    Part,
    as_tensors,
    cut,
    has_rows,
    lanes_of,
    part_to_compute,
    rows_at,
    unmarked,
    whole_batch,
    with_shape,
    with_whole_values,
)
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.reports import StepReport, compare_with_serial, why_not_compared
from tnt_keras.step.signature import (
    BatchForms,
    Form,
    Signature,
    Specs,
    Unknown,
    batch_of_specs,
    knows_all,
    layout_of,
)
from tnt_keras.step.traced_steps import FormFunctions, StepTrace, TracedSteps, inputs_of

_FAILED_NODES = re.compile(r"\{\{node ([^}]+)\}\}")


class PartitionedSteps:
    """One kind of step of a model, or a function of the user's own, on all ranks.

    A step is traced as plain Keras does, and partitioned for each form of the batch. Tracing and
    building are collective: all ranks meet a form in the same step.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Any], Any],
        owner: StepOwner,
        *,
        traces_exactly: bool = False,
        compiles: bool = False,
    ) -> None:
        self.name = name
        self.owner = owner
        self._is_exact = traces_exactly
        self._traces = TracedSteps(
            name, step, owner, traces_exactly=traces_exactly, compiles=compiles
        )
        self._forms: dict[tuple[str, Any], BatchForms] = {}
        self._functions: dict[Any, FormFunctions] = {}
        self._of_sizes: dict[Any, FormFunctions] = {}
        self._is_checked = False
        self._reports: dict[tuple[bool, tuple[bool, ...]], StepReport] = {}

    @property
    def graph(self) -> Any:
        """The graph of the step that was traced last, None before the first one."""
        last = self._traces.last
        return None if last is None else last.traced.graph

    @property
    def partitions(self) -> list[PartitionedStep]:
        """What was built so far."""
        return [built for each in self._functions.values() for built in each.built.values()]

    @property
    def tables(self) -> list[str]:
        """What is exchanged in the steps that have run; several if not each updates weights."""
        return [report.table for report in self._reports.values()]

    def run(self, part: Part, element_spec: Any = None) -> Any:
        """Compute a step, and return its result for the whole batch. Collective.

        `element_spec` is that of the dataset from which this rank reads, None for arrays.
        """
        part, is_cut = part_to_compute(part)
        functions, tensors = self._functions_for(part, is_cut, element_spec)
        if self.owner.options.check and not self._is_checked and is_cut:
            self._is_checked = True
            self._compare_with_serial(part, functions.trace, element_spec)
        are_updates = functions.trace.accumulations.begin_step()
        try:
            function = functions.for_updates(are_updates)
        except PartitionError as error:  # on all ranks
            if not functions.is_for_any_rows:
                raise
            logger.debug("%s is partitioned for each number of rows: %s", self.name, error)
            for (what, _), forms in self._forms.items():
                if what == "rows":
                    forms.know_all()
            self._of_sizes.clear()
            functions, tensors = self._functions_for(part, is_cut, element_spec)
            function = functions.for_updates(are_updates)
        if (is_cut, are_updates) not in self._reports:
            without = ", without an update" if are_updates and not any(are_updates) else ""
            title = f"{self.name} on {_ranks_and_lanes()}{without}"
            draws = len(function.own_draws)
            clusters = function.num_clusters
            report = StepReport(title, function.explanation, is_cut, draws, clusters)
            self._reports[is_cut, are_updates] = report
            report.announce(functions.trace.normalisations, part.num_global)
        try:
            result, partial_sums = function.with_partial_sums(*tensors)
        except tf.errors.OpError as error:
            if not function.across_ranks.alone.isdisjoint(_FAILED_NODES.findall(str(error))):
                give_up(error)
            raise
        if not functions.added:
            return result
        own_share = 1.0 if is_cut else get_size() * part.num_local / max(part.num_global, 1)
        self.owner.own_logs.add(self.name, functions.added, partial_sums, own_share)
        return result

    def trace_without_batch(self, marked_spec: Any) -> None:
        """Trace the step for the batches of an empty dataset, unless it was. Collective.

        The trace makes what the first step would, such as metrics. The spec is that of what
        `part_of` takes.
        """
        if self._traces.last is not None:
            return
        if isinstance(marked_spec, Part):
            self.owner.data_check().end()  # others may have a batch
        batch = batch_of_specs(unmarked(marked_spec))
        specs = tuple(spec for spec in tf.nest.flatten(batch) if spec is not None)
        if isinstance(marked_spec, (Part, MicroBatch)):
            specs = _of_whole_batch(specs)
        self._traces.for_batch(Signature(layout_of(batch), specs), batch, None)

    def run_without_batch(self) -> None:
        """Do what needs no batch, as Keras does at the end of data of unknown length. Local."""
        last = self._traces.last
        if self._traces.compiles:  # with it, Keras runs nothing
            return
        if last is not None and last.without_batch is not None:
            last.without_batch()

    def _functions_for(
        self, part: Part, is_cut: bool, element_spec: Any
    ) -> tuple[FormFunctions, list[tf.Tensor]]:
        """Return what computes steps of a batch, and the tensors of this rank. Collective."""
        present = [leaf for leaf, _ in part.leaves]
        # Sizes of ragged and sparse leaves may be others in each batch.
        sizes = (
            self._signature_of(part, is_cut, element_spec).specs
            if part.shared
            else tuple((one.dtype, tuple(one.shape)) for one in present)
        )
        key = layout_of(part.data), is_cut, part.num_global, sizes
        functions = self._of_sizes.get(key)
        if functions is None:
            signature = self._signature_of(part, is_cut, element_spec)
            functions = self._of_sizes[key] = self._of_form(part, signature, element_spec)
        tensors = _tensors_of_lanes(part) if is_cut else _components(present)
        if functions.is_for_any_rows:
            with tf.device("CPU:0"):
                tensors.append(tf.constant(part.num_global, tf.int64))
        return functions, tensors

    def _signature_of(self, part: Part, is_cut: bool, element_spec: Any) -> Signature:
        return Signature.of(part, element_spec, is_exact=self._is_exact, is_cut=is_cut)

    def _of_form(self, part: Part, signature: Signature, element_spec: Any) -> FormFunctions:
        """Return what computes steps of batches of the same form. Collective."""
        kind = signature.kind
        forms = self._forms_of("sizes", kind)
        form = forms.form_of(signature.sizes)
        knows_others = knows_all(form)
        num_rows: int | Unknown | None = part.num_global if signature.is_cut else None
        # A single row is always known, since operations may repeat it; and so is the number if
        # parts of the batch have other numbers of rows.
        if signature.is_cut and not part.shared and part.num_global > 1:
            [known] = self._forms_of("rows", kind).form_of((part.num_global,))
            num_rows = part.num_global if known is None else known
        if isinstance(num_rows, Unknown):
            form = tuple(num_rows if size is None else size for size in form)
        functions = self._with_form(part, signature, element_spec, num_rows, form)
        if functions is None:
            (self._forms_of("rows", kind) if knows_others else forms).know_all()
            return self._of_form(part, signature, element_spec)
        return functions

    def _with_form(
        self,
        part: Part,
        signature: Signature,
        element_spec: Any,
        num_rows: int | Unknown | None,
        form: Form,
    ) -> FormFunctions | None:
        """Return what computes steps of batches of a form, None if the step needs more sizes."""
        key = signature.kind, num_rows, form
        if key not in self._functions:
            trace = self._traces.for_batch(signature.in_form(form), part.data, element_spec)
            if trace is None:
                return None
            self._warn_of_other_rows(part, signature)
            inputs = inputs_of(part, signature, form)
            self._functions[key] = FormFunctions(
                self.name, self.owner, trace, inputs, num_rows, self._traces.compiles
            )
        return self._functions[key]

    def _forms_of(self, what: str, kind: Any) -> BatchForms:
        """Return the forms of "sizes" of a kind of batches, or of numbers of "rows"."""
        if (what, kind) not in self._forms:
            forms = self.owner.new_forms(f"{what} in {self.name} of {kind}")
            if self._traces.compiles:  # XLA compiles for each size anyway, which it must know
                forms.know_all()
            self._forms[what, kind] = forms
        return self._forms[what, kind]

    def _warn_of_other_rows(self, part: Part, signature: Signature) -> None:
        """Say once of which parts of batches each rank reads and computes everything. Local."""
        others = [
            f"{spec.dtype.name} {spec.shape}"
            for i, spec in enumerate(signature.specs)
            if i in signature.others and isinstance(spec, tf.TensorSpec)
        ]
        if others and not self.owner.has_other_rows:
            self.owner.has_other_rows = True
            logger.warning(
                "Some components of the batches do not have one row per sample (%s): every rank "
                "reads them whole, and computes with them whole until the result has one row per "
                "sample. [no-row-per-sample]",
                ", ".join(others),
            )

    def _compare_with_serial(self, part: Part, trace: StepTrace, element_spec: Any) -> None:
        """Compare the step with the serial one on some rows of a batch. Collective."""
        reason = why_not_compared(trace.traced, self.owner.options)
        if reason is None and trace.accumulations.variables:
            reason = "gradients are accumulated over several steps"
        if reason is not None:
            logger.info("%s is not checked: %s", self.name, reason)
            return
        is_for_any_size = all(spec.shape.rank == 0 or not spec.shape[0] for spec in trace.specs)
        if any(is_shared and isinstance(leaf, tf.Tensor) for leaf, is_shared in part.leaves):
            is_for_any_size = False  # parts with other rows may name samples of all the batch
        num_rows = min(part.num_global, 2 * num_lanes() + 1 if is_for_any_size else sys.maxsize)
        some = tf.range(num_rows, dtype=tf.int64)
        whole = whole_batch(part)
        if num_rows < part.num_global:
            whole = tf.nest.map_structure(
                lambda leaf: rows_at(leaf, some) if has_rows(leaf) else leaf, whole
            )
        few = with_whole_values(cut(whole))
        signature = self._signature_of(few, True, element_spec)
        # No sizes that are seen, which decide what functions a training runs.
        form = signature.sizes
        functions = self._with_form(few, signature, element_spec, few.num_global, form)
        assert functions is not None, "A step whose sizes are all known needs no more of them."
        tensors = _tensors_of_lanes(few)
        of_all = [leaf for leaf in tf.nest.flatten(as_tensors(whole)) if leaf is not None]
        compare_with_serial(
            self.name, trace.traced, of_all, lambda: functions.for_updates(())(*tensors)
        )


def _components(leaves: Sequence[Any]) -> list[tf.Tensor]:
    components: list[tf.Tensor] = tf.nest.flatten(leaves, expand_composites=True)
    return components


def _tensors_of_lanes(part: Part) -> list[tf.Tensor]:
    """Return what a function is called with: of a leaf with rows a tensor for each own lane."""
    if len(row_split().own_lanes) == 1:
        return _components([leaf for leaf, _ in part.leaves])
    tensors = []
    for leaf, is_shared in part.leaves:
        has_own_rows = isinstance(leaf, tf.Tensor) and not is_shared and has_rows(leaf)
        tensors += lanes_of(leaf, part.num_global) if has_own_rows else _components([leaf])
    return tensors


def _ranks_and_lanes() -> str:
    ranks = f"{get_size()} rank{'s' if get_size() > 1 else ''}"
    return ranks if given_lanes() is None else f"{given_lanes()} lanes on {ranks}"


def _of_whole_batch(specs: Specs) -> Specs:
    """Return specs with the rows of all ranks, where the specs of their parts tell. Collective."""
    own = [spec.shape[0] if spec.shape.rank else None for spec in specs]
    of_ranks = zip(*allgather_json("rows of an empty dataset", own), strict=True)
    return tuple(
        with_shape(spec, [None if None in rows else sum(rows), *spec.shape[1:]])
        if spec.shape.rank
        else spec
        for spec, rows in zip(specs, of_ranks, strict=True)
    )
