"""Batches of a few sizes get functions that know them; after these come functions for any size."""

from __future__ import annotations

from tnt_keras.step.batch_forms import BatchForms, Unknown

ANY, OTHER = Unknown(0), Unknown(1)


def test_the_third_length_of_a_number_of_rows_is_not_known_to_its_function() -> None:
    forms = BatchForms()
    assert [forms.form_of((32, t, 8)) for t in (5, 7, 6, 9, 5, 7)] == [
        (32, 5, 8),
        (32, 7, 8),
        (32, ANY, 8),
        (32, ANY, 8),
        (32, 5, 8),
        (32, 7, 8),
    ]


def test_sizes_are_one_unknown_size_while_they_are_equal() -> None:
    forms = BatchForms()
    for t in (5, 7):
        forms.form_of((32, t, 32, t, 32, t + 1))
    assert forms.form_of((32, 6, 32, 6, 32, 7)) == (32, ANY, 32, ANY, 32, OTHER)
    assert forms.form_of((32, 1, 32, 1, 32, 1)) == (32, ANY, 32, ANY, 32, OTHER)
    assert forms.form_of((32, 6, 32, 9, 32, 7)) == (32, ANY, 32, OTHER, 32, Unknown(2))
    assert forms.form_of((32, 2, 32, 2, 32, 2)) == (32, ANY, 32, OTHER, 32, Unknown(2))


def test_a_size_that_changes_later_becomes_unknown_then() -> None:
    forms = BatchForms()
    for height in (5, 7, 6):
        forms.form_of((32, height, 8))
    assert forms.form_of((32, 6, 9)) == (32, ANY, OTHER)
    assert forms.form_of((32, 11, 11)) == (32, ANY, OTHER)


def test_a_step_that_needs_all_sizes_is_given_them() -> None:
    forms = BatchForms()
    for t in (5, 7, 6):
        forms.form_of((32, t))
    forms.know_all()
    assert [forms.form_of((32, t)) for t in (5, 6, 9)] == [(32, 5), (32, 6), (32, 9)]
