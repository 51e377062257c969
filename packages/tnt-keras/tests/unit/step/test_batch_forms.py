"""Batches of a few sizes get functions that know them; after these come functions for any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from tnt_keras.step.batch import cut
from tnt_keras.step.signature import BatchForms, Signature, Unknown


def test_the_third_length_is_not_known_to_its_function() -> None:
    forms = BatchForms()
    unknown = Unknown(0, example=7)
    assert [forms.form_of((None, t, 8)) for t in (5, 7, 6, 9, 5, 7)] == [
        (None, 5, 8),
        (None, 7, 8),
        (None, unknown, 8),
        (None, unknown, 8),
        (None, 5, 8),
        (None, 7, 8),
    ]


def test_sizes_are_one_unknown_size_while_they_are_equal() -> None:
    forms = BatchForms()
    for t in (5, 7):
        forms.form_of((t, t, t + 1))
    equal, other = Unknown(0, example=7), Unknown(1, example=8)
    assert forms.form_of((6, 6, 7)) == (equal, equal, other)
    assert forms.form_of((1, 1, 1)) == (equal, equal, other)
    first, second, third = Unknown(0, example=6), Unknown(1, example=9), Unknown(2, example=7)
    assert forms.form_of((6, 9, 7)) == (first, second, third)
    assert forms.form_of((2, 2, 2)) == (first, second, third)


def test_sizes_of_the_example_differ_where_they_may() -> None:
    forms = BatchForms()
    for a, b in ((5, 5), (1, 6)):
        forms.form_of((a, b))
    assert forms.form_of((7, 7)) == (Unknown(0, example=1), Unknown(1, example=6))
    forms = BatchForms()
    for a, b, c in ((5, 5, 4), (6, 4, 6)):
        forms.form_of((a, b, c))
    unknown = Unknown(0, example=7), Unknown(1, example=8), Unknown(2, example=9)
    assert forms.form_of((7, 7, 8)) == unknown


def test_a_size_that_changes_later_becomes_unknown_then() -> None:
    forms = BatchForms()
    for height in (5, 7, 6):
        forms.form_of((height, 8))
    both = Unknown(0, example=7), Unknown(1, example=8)
    assert forms.form_of((6, 9)) == both
    assert forms.form_of((11, 11)) == both


def test_a_step_that_needs_all_sizes_is_given_them() -> None:
    forms = BatchForms()
    for t in (5, 7, 6):
        forms.form_of((t,))
    forms.know_all()
    assert [forms.form_of((t,)) for t in (5, 6, 9)] == [(5,), (6,), (9,)]


def test_a_run_that_goes_on_chooses_as_the_one_that_was_killed() -> None:
    killed = BatchForms()
    for t in (5, 7, 6):
        killed.form_of((t,))
    continued = BatchForms(killed.seen)
    assert [continued.form_of((t,)) for t in (6, 5, 9)] == [killed.form_of((t,)) for t in (6, 5, 9)]


def signature(nodes: int, edges: int, *, is_exact: bool) -> Signature:
    batch: Any = ((np.ones((nodes, 2)), np.ones((edges, 1))), np.ones(nodes))
    part = cut(batch)
    return Signature.of(part, None, is_exact=is_exact)


def test_other_rows_that_are_as_many_as_the_samples_by_chance_are_another_kind() -> None:
    equal, others = signature(6, 6, is_exact=False), signature(6, 9, is_exact=False)
    assert equal.kind != others.kind
    assert others.kind == signature(6, 4, is_exact=False).kind


def test_numbers_of_other_rows_are_sizes_where_a_signature_is_exact_or_they_are_one() -> None:
    def sizes(edges: int, is_exact: bool) -> Any:
        return signature(6, edges, is_exact=is_exact).sizes

    assert [sizes(e, True) for e in (9, 4)] == [(None, 2, 9, 1, None), (None, 2, 4, 1, None)]
    assert [sizes(e, False) for e in (9, 4)] == [(None, 2, None, 1, None)] * 2
    assert sizes(1, False) == (None, 2, 1, 1, None)
