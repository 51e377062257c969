"""Which sizes of a batch the function of a step knows, and which it is given with each batch.

A function that knows all sizes is the fastest, but takes as long to build as to trace. So the first
batches of other sizes get functions of their own; after them come functions for any size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

_MANY_SIZES = 3  # of one number of rows


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A size that may differ between batches.

    Attributes:
        number: Sizes of one number are equal in every batch.
    """

    number: int


Sizes: TypeAlias = tuple[int | None, ...]
"""All sizes of a batch in a fixed order, first its number of rows. None for sizes that no function
knows, such as the lengths of ragged rows."""

Form: TypeAlias = tuple[int | Unknown | None, ...]
"""The same, as a function knows them."""


class BatchForms:
    """The forms of the batches of one step that have the same structure, dtypes and ranks.

    A form depends on the sizes of global batches, in the order in which they came, and on nothing
    else: so all ranks choose the same.
    """

    def __init__(self) -> None:
        self._seen: list[Sizes] = []
        self._forms: list[Form] = []
        self._knows_all = False

    def form_of(self, sizes: Sizes) -> Form:
        """Return the form of the function for a batch. Local.

        Args:
            sizes: Of the global batch.
        """
        if sizes in self._forms:
            return sizes
        known = next((form for form in reversed(self._forms) if _holds(form, sizes)), None)
        if known is not None:
            return known
        self._seen.append(sizes)
        alike = [each for each in self._seen if each[0] == sizes[0]]
        form = sizes if self._knows_all or len(alike) < _MANY_SIZES else _common(alike)
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
    names: dict[Sizes, Unknown] = {}
    return tuple(
        sizes[0] if len(set(sizes)) == 1 else names.setdefault(sizes, Unknown(len(names)))
        for sizes in zip(*batches, strict=True)
    )
