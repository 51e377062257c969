"""Which sizes of a batch the function of a step knows, and which it is given with each batch.

A function that knows all sizes is the fastest, but takes as long to build as to trace. So the first
batches of other sizes get functions of their own; after them come functions for any size.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TypeAlias

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
        self._forms = [form for form in self._forms if not _unknown_in(form)]


def _unknown_in(form: Form) -> list[Unknown]:
    return [size for size in form if isinstance(size, Unknown)]


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
