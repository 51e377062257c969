"""What tells one function of a step from another: structure, dtypes and sizes of the batch.

A function that knows all sizes is the fastest, but takes as long to build as to trace. So the first
batches of other sizes get functions of their own; after them come functions for any size.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tnt_keras.step.batch import Part, has_rows, with_shape
from tnt_keras.step.batch import num_rows as num_rows_of

_MANY_SIZES = 3  # of which the last one is unknown to its function


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A size that may differ between batches; sizes of one `number` are equal in every batch."""

    number: int
    example: int  # its size in a batch that could come, where no two of these are equal


Sizes: TypeAlias = tuple[int | None, ...]
"""All sizes of a batch in a fixed order; None for those about which nothing is to be decided."""

Form: TypeAlias = tuple[int | Unknown | None, ...]
"""The same, as a function knows them."""


class BatchForms:
    """The forms of the batches of one step that have the same structure, dtypes and ranks.

    A form depends on the sizes of global batches, in the order in which they came, and on nothing
    else: so all ranks choose the same, and so does a run that is continued, if it is given what the
    former run has seen. A function that knows a size may round otherwise than one that does not.
    """

    def __init__(self, seen: Sequence[Sizes] = ()) -> None:
        self.seen: list[Sizes] = []
        self._forms: list[Form] = []
        self._knows_all = False
        for sizes in seen:
            self.form_of(sizes)

    def form_of(self, sizes: Sizes) -> Form:
        """Return the form of the function for a global batch. Local."""
        if sizes in self._forms:
            return sizes
        known = next((form for form in reversed(self._forms) if _holds(form, sizes)), None)
        if known is not None:
            return known
        self.seen.append(sizes)
        is_known = self._knows_all or len(self.seen) < _MANY_SIZES
        form = sizes if is_known else _common(self.seen)
        self._forms.append(form)
        return form

    def know_all(self) -> None:
        """Choose functions that know all sizes from now on: the step does not do without. Local."""
        self._knows_all = True
        self._forms = [form for form in self._forms if knows_all(form)]


def knows_all(form: Form) -> bool:
    """Return whether a form has no unknown size. Pure."""
    return not any(isinstance(size, Unknown) for size in form)


def _holds(form: Form, sizes: Sizes) -> bool:
    """Return whether batches of some sizes have a form."""
    unknown: dict[Unknown, int | None] = {}
    return all(
        unknown.setdefault(known, size) == size if isinstance(known, Unknown) else known == size
        for known, size in zip(form, sizes, strict=True)
    )


def _common(batches: Sequence[Sizes]) -> Form:
    """Return the form that several batches have: unknown are the sizes in which they differ."""
    example = max(batches, key=lambda sizes: (len(set(sizes)), [size or 0 for size in sizes]))
    unknown: dict[Sizes, Unknown] = {}
    form: list[int | Unknown | None] = []
    for of_batches, size in zip(zip(*batches, strict=True), example, strict=True):
        if len(set(of_batches)) == 1:
            form.append(size)
            continue
        used = {each.example for each in unknown.values()}
        free = next(n for n in itertools.count(size or 0) if n not in used)
        form.append(unknown.setdefault(of_batches, Unknown(len(unknown), free)))
    return tuple(form)


Specs = tuple[Any, ...]
"""Of the leaves of a batch that are not None, in their order, with the rows of the whole batch."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """What decides which function a step runs; equal on ranks that have parts of one batch."""

    layout: Hashable  # of the batch, without its numbers
    specs: Specs  # of the whole batch
    lacks_sizes: bool = False  # of a form that does not know all sizes
    others: frozenset[int] = frozenset()  # specs of leaves whose rows are not those of the batch
    is_cut: bool = True  # else each rank computes all of the batch

    @classmethod
    def of(
        cls, part: Part, element_spec: Any, *, is_exact: bool = False, is_cut: bool = True
    ) -> Signature:
        """Return the signature of a batch of which this rank has a part. Local.

        Another number of rows than that of the batch may be another one in each, and is left open,
        unless the signature is exact. One row stays one, since operations may broadcast it.
        """
        rows = part.num_global
        present = part.leaves
        specs = [
            _spec_of(leaf, _rows_of(leaf, rows, is_exact) if is_shared else rows)
            for leaf, is_shared in present
        ]
        promised = present_specs(element_spec, part.data)
        if promised is not None:  # inner sizes of ragged and sparse tensors may vary
            for i, (spec, like) in enumerate(zip(specs, promised, strict=True)):
                if not isinstance(spec, tf.TensorSpec):
                    specs[i] = with_shape(spec, [spec.shape[0], *_loosened(spec, like).shape[1:]])
        others = frozenset(i for i, (_, is_shared) in enumerate(present) if is_shared)
        return cls(layout_of(part.data), tuple(specs), others=others, is_cut=is_cut)

    @property
    def kind(self) -> Hashable:
        """What batches have in common whose sizes alone differ."""
        kinds = (with_shape(spec, [None] * (spec.shape.rank or 0)) for spec in self.specs)
        return self.layout, self.is_cut, (*kinds, self.others)

    @property
    def sizes(self) -> Sizes:
        """All sizes of the whole batch, with None for its numbers of rows if it is cut."""
        return tuple(
            size if axis or not self.is_cut or i in self.others else None
            for i, spec in enumerate(self.specs)
            for axis, size in enumerate(spec.shape or ())
        )

    def of_leaves(self, form: Form) -> list[Form]:
        """Return the sizes of each leaf as a form knows them."""
        left = iter(form)
        return [
            tuple(
                size if known is None else known
                for size, known in zip(spec.shape or (), left, strict=False)
            )
            for spec in self.specs
        ]

    def in_form(self, form: Form) -> Signature:
        """Return the signature with the sizes that a form knows."""
        specs = tuple(
            with_shape(spec, [None if isinstance(size, Unknown) else size for size in sizes])
            for spec, sizes in zip(self.specs, self.of_leaves(form), strict=True)
        )
        return dataclasses.replace(self, specs=specs, lacks_sizes=not knows_all(form))


def layout_of(batch: Any) -> Hashable:
    """Return the structure of a batch, and which of its leaves are not None. Local."""
    is_present = tuple(leaf is not None for leaf in tf.nest.flatten(batch))
    return key_of_nest(batch, lambda _: None), is_present


def batch_of_specs(element_spec: Any) -> Any:
    """Return the specs of the elements of a dataset, with None where those have None. Pure."""
    of_tensors = (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)
    return tf.nest.map_structure(
        lambda spec: spec if isinstance(spec, of_tensors) else None, element_spec
    )


def present_specs(element_spec: Any, batch: Any) -> list[Any] | None:
    """Return the specs of the leaves of a batch that are not None, as a dataset promises them."""
    if element_spec is None:
        return None
    specs, leaves = tf.nest.flatten(element_spec), tf.nest.flatten(batch)
    if len(specs) != len(leaves):  # None is no leaf of a dataset's
        return specs
    return [spec for spec, leaf in zip(specs, leaves, strict=True) if leaf is not None]


def traced_specs(specs: Specs, like: Sequence[Any] | None) -> Specs:
    """Return the specs with which plain Keras traces a step: exactly those of arrays. Pure.

    Sizes that a dataset does not promise are None, so that the user's Python code does what it does
    on one rank. `like` are the specs of its elements, as this rank reads them; None for arrays.
    """
    if like is None:
        return specs
    return tuple(_loosened(spec, of_data) for spec, of_data in zip(specs, like, strict=True))


def relaxed(specs: Specs, known: Specs) -> Specs | None:
    """Return specs that hold for both, as TensorFlow relaxes them; None if none do. Pure."""
    pairs = zip(specs, known, strict=True)
    both = tuple(one.most_specific_common_supertype([other]) for one, other in pairs)
    return None if any(spec is None or spec.shape.rank is None for spec in both) else both


def covers(general: Specs, specs: Specs) -> bool:
    """Return whether a trace for some specs holds for others. Pure."""
    return all(one.is_subtype_of(all_) for one, all_ in zip(specs, general, strict=True))


def _rows_of(leaf: Any, num_rows: int, is_exact: bool) -> int | None:
    own = int(num_rows_of(leaf))
    is_known = is_exact if isinstance(leaf, tf.Tensor) else own == num_rows
    return own if own == 1 or is_known else None


def _spec_of(leaf: Any, num_rows: int | None) -> Any:
    if not isinstance(leaf, tf.Tensor):
        leaf_spec = tf.type_spec_from_value(leaf)
        return with_shape(leaf_spec, [num_rows, *leaf_spec.shape[1:]])
    shape = leaf.shape
    return tf.TensorSpec([num_rows, *shape[1:]] if has_rows(leaf) else shape, leaf.dtype)


def _loosened(spec: Any, of_data: Any) -> Any:
    if spec.shape.rank is None or of_data.shape.rank != spec.shape.rank:
        return with_shape(spec, [None] * (spec.shape.rank or 0))
    sizes = [
        None if promised is None else size
        for size, promised in zip(spec.shape, of_data.shape, strict=True)
    ]
    return with_shape(spec, sizes)


def key_of_nest(nest: Any, key_of_leaf: Callable[[Any], Hashable]) -> Hashable:
    """Return what tells a nest of dictionaries, lists and tuples from others, by its leaves."""
    if isinstance(nest, Mapping):
        return type(nest), tuple((key, key_of_nest(nest[key], key_of_leaf)) for key in nest)
    if isinstance(nest, (list, tuple)):
        return type(nest), tuple(key_of_nest(each, key_of_leaf) for each in nest)
    return key_of_leaf(nest)
