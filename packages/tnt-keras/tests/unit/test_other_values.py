"""Some samples get values that later ones may have, to tell rules apart that fit the first ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.probe.samples.first_samples import Samples
from tnt_keras.probe.samples.other_values import with_other_values, with_small_numbers
from tnt_keras.probe.samples.users_code import UsersCode


def changed(rows: Any, num_rows: int = 5) -> Any:
    """What becomes of samples first, as lists; None if they stay as they are."""
    samples = Samples(rows, np.arange(0, num_rows, 2), num_rows)
    other = next(with_other_values(samples, UsersCode(sees_labels=False)), None)
    if other is None:
        return None
    assert (other.num_rows, other.rows.tolist()) == (num_rows, [0, 2, 4])
    return tf.nest.map_structure(
        lambda leaf: leaf.to_list() if isinstance(leaf, tf.RaggedTensor) else leaf.numpy().tolist(),
        other.all_rows,
    )


def test_numbers_become_zero_in_more_than_half_of_the_samples() -> None:
    assert changed(tf.constant([3, 1, 2, 3, 3])) == [0, 0, 0, 0, 3]
    assert changed(tf.ones(5)) == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert changed(tf.constant([True] * 5)) == [False] * 4 + [True]
    assert changed(tf.constant([0.5, 0.25, 2.0, -1.0, 0.75])) == [0.0] * 4 + [0.75]


def test_a_label_that_is_zero_in_all_samples_becomes_one() -> None:
    assert changed(tf.zeros(5, tf.int64)) == [1, 1, 1, 1, 0]
    assert changed(tf.constant([[2, 0]] * 5)) == [[0, 1]] * 4 + [[2, 0]]
    assert changed(tf.constant([[0.5, 0.0]] * 5)) == [[0.0, 0.0]] * 4 + [[0.5, 0.0]]


def test_one_length_among_the_labels_of_all_samples_is_halved_in_some() -> None:
    lengths = tf.constant([5, 5, 5, 5, 5])
    assert labels_of(tf.constant([[7], [3], [0], [5], [9]]), lengths)[0] == [2, 2, 2, 2, 5]
    assert changed(lengths) is None  # a level of noise, say, of all inputs of the batch


def test_inputs_and_labels_change_in_turn() -> None:
    rows = (tf.constant([[0.5, 2.0]] * 5), tf.constant([1, 2, 3, 3, 1]))
    of_inputs, of_labels, *_ = with_other_values(Samples(rows, np.arange(5), 5))
    assert of_inputs.all_rows[0].numpy().tolist() == [[0.0, 0.0]] * 4 + [[0.5, 2.0]]
    assert of_inputs.all_rows[1] is rows[1]
    assert of_labels.all_rows[0] is rows[0]
    assert of_labels.all_rows[1].numpy().tolist() == [0, 0, 0, 0, 1]


def test_masks_among_the_inputs_change_without_the_features() -> None:
    rows = {"features": tf.constant([[0.5, 2.0]] * 5), "mask": tf.ones(5)}
    of_features, of_masks, *_ = with_other_values(Samples(rows, np.arange(5), 5))
    assert of_features.all_rows["mask"] is rows["mask"]
    assert of_masks.all_rows["features"] is rows["features"]
    assert of_masks.all_rows["mask"].numpy().tolist() == [0.0] * 4 + [1.0]


def test_codes_of_classes_stay_codes() -> None:
    assert changed(tf.constant([[1, 0, 0]] * 5)) == [[0, 1, 0]] * 4 + [[1, 0, 0]]
    two_of_four = [[1.0, 1.0, 0.0, 0.0], *[[0.0, 1.0, 0.0, 1.0]] * 4]
    assert changed(tf.constant(two_of_four)) == [
        [0.0, 1.0, 1.0, 0.0],
        *[[1.0, 0.0, 1.0, 0.0]] * 3,
        two_of_four[4],
    ]


def test_texts_and_ragged_rows_become_shorter() -> None:
    assert changed(tf.constant(["abcd", "a", "", "abc", "abc"])) == [b"ab", b"", b"", b"a", b"abc"]
    rows = [[1, 2, 3], [4], [], [5, 6], [7, 8]]
    assert changed(tf.ragged.constant(rows)) == [[1, 2], [4], [], [5], [7, 8]]
    nested = tf.ragged.constant([[[1], [2, 3]], [[4]], [], [[5]], [[6], []]])
    assert changed(nested) == [[[1]], [[4]], [], [[5]], [[6], []]]


@pytest.mark.parametrize(
    "rows",
    [
        tf.constant([-1, 1, 1, -1, -1]),
        tf.constant([4, 4, 4, 4, 4]),
        tf.constant(7),
        None,
    ],
    ids=["signs", "one number", "scalar", "none"],
)
def test_what_would_get_another_meaning_stays_as_it_is(rows: Any) -> None:
    assert changed(rows) is None
    labels = tf.ones(5)
    other, *_ = with_other_values(Samples((rows, labels), np.arange(5), 5))
    assert other.all_rows[0] is rows


def test_the_last_sample_gets_the_name_of_the_first_one() -> None:
    names = tf.constant(["anne", "bob", "carl"])
    rows = {"user": tf.constant([[7], [3], [9]]), "name": names, "age": tf.constant([4.5, 2, 3])}
    *_, repeated = with_other_values(Samples(rows, np.arange(3), 3))
    assert repeated.all_rows["user"].numpy().tolist() == [[7], [3], [7]]
    assert repeated.all_rows["name"].numpy().tolist() == [b"anne", b"bob", b"anne"]
    assert repeated.all_rows["age"] is rows["age"]


def test_real_numbers_become_large_in_other_samples() -> None:
    rows = (tf.constant([[0.5], [0.25], [2.0], [-1.0], [0.75]]), tf.constant([3.0, 1, 2, 3, 3]))
    _, _, large, *_ = with_other_values(Samples(rows, np.arange(5), 5))
    assert large.all_rows[0].numpy().ravel().tolist() == [-8.0, 4.0, -32.0, 16.0, 0.75]
    assert large.all_rows[1] is rows[1]


def test_rows_of_integers_become_shorter_in_other_samples() -> None:
    rows = (tf.constant([[4, 2, 1]] * 5), tf.constant([[1.0, 2.0]] * 5), tf.constant([[1, 0]] * 5))
    _, _, shorter, *_ = with_other_values(Samples(rows, np.arange(5), 5))
    assert shorter.all_rows[0].numpy().tolist() == [[4, 2, 0]] * 4 + [[4, 2, 1]]
    assert shorter.all_rows[1] is rows[1]
    assert shorter.all_rows[2] is rows[2]  # codes of classes


def labels_of(rows: Any, labels: Any) -> list[Any]:
    samples = Samples((rows, labels), np.arange(5), 5)
    return [other.all_rows[1].numpy().tolist() for other in with_other_values(samples)]


def test_every_second_label_is_missing_or_new_in_other_samples() -> None:
    x = tf.constant([[-1], [1], [1], [-1], [-1]])  # signs, which stay as they are
    assert labels_of(x, tf.constant([3, 1, 2, 3, 3]))[2:] == [
        [late, 1, late, 3, late] for late in (-1, -100, 255, 4)
    ]
    assert labels_of(x, tf.constant([3, 1, 2, 3, 3], tf.uint8))[2:] == [
        [late, 1, late, 3, late] for late in (255, 4)
    ]
    *_, missing, others = labels_of(x, tf.ones(5))
    assert np.isnan(missing).tolist() == [True, False] * 2 + [True]
    assert others == [-1.0, 1.0, -1.0, 1.0, -1.0]
    assert len(labels_of(x, tf.constant([[-1.0], [1.0], [1.0], [1.0], [1.0]]))) == 1  # NaN
    assert len(labels_of(x, tf.constant([[0.0, 1.0]] * 5))) == 2  # codes of classes stay codes
    assert labels_of(x, tf.constant(["a"] * 5)) == [[b""] * 4 + [b"a"]]


def test_the_first_sample_has_inputs_that_are_no_number_in_the_last_samples() -> None:
    rows = (tf.constant([[0.5, 2.0]] * 5), tf.constant([1, 2, 3, 3, 1]))
    *_, last = with_other_values(Samples(rows, np.arange(5), 5), UsersCode(sees_labels=False))
    assert np.isnan(last.all_rows[0].numpy()).any(axis=1).tolist() == [True] + [False] * 4
    assert last.all_rows[1] is rows[1]


def test_any_component_may_hold_labels_where_there_are_no_others() -> None:
    rows = {"features": tf.constant([[0.5, 2.0]] * 5), "labels": tf.constant([1, 2, 1, 2, 2])}
    others = [other.all_rows for other in with_other_values(Samples(rows, np.arange(5), 5))]
    late = [other["labels"].numpy().tolist() for other in others]
    assert [-100, 2, -100, 2, -100] in late
    alone = next(other for other in others if other["labels"].numpy()[0] == -100)
    assert alone["features"] is rows["features"]


def rare_labels(labels: Any) -> list[Any]:
    """What the first sample becomes where it alone gets another label."""
    x = tf.constant([[7], [3], [0], [5], [9]])
    own = tf.constant(labels).numpy().tolist()
    others = labels_of(x, tf.constant(labels))
    return [other[0] for other in others if other[0] != own[0] and other[1:] == own[1:]]


def test_the_first_sample_alone_has_a_label_that_no_other_has() -> None:
    assert rare_labels([0, 0, 0, 0, 0]) == [1]
    assert rare_labels([1, 1, 1, 1, 1]) == [2, 0]
    assert rare_labels([3, 1, 2, 3, 3]) == [4]
    assert rare_labels([[0.0], [0.0], [0.0], [0.0], [0.0]]) == [[1.0]]
    assert rare_labels([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 1.0]]) == [[1.0, 1.0]]
    assert rare_labels([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]) == [[0, 0, 1]]
    assert rare_labels([[0.5], [1.5], [2.0], [1.0], [3.0]]) == [[8.0]]
    assert rare_labels([-1, 1, 1, -1, 1]) == []
    assert rare_labels([True, False, True, False, True]) == []


def test_the_first_sample_alone_is_an_outlier_or_longer_or_has_a_flag() -> None:
    features = tf.constant([[0.5, 0.0], [0.25, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.75, 0.0]])
    texts = tf.constant([[4, 2, 0, 0], [3, 1, 0, 0], [3, 2, 0, 0], [1, 7, 0, 0], [3, 0, 0, 0]])
    samples = Samples(((features, texts), tf.ones([5, 1])), np.arange(5), 5)
    *_, rare, _, _ = with_other_values(samples, UsersCode(sees_labels=False))
    of_features, of_texts = (leaf.numpy().tolist() for leaf in rare.all_rows[0])
    assert of_features == [[8.0, 1.0], *features.numpy().tolist()[1:]]
    assert of_texts == [[4, 2, 1, 1], *texts.numpy().tolist()[1:]]


def test_large_numbers_are_scaled_down_in_all_samples() -> None:
    features, labels = tf.constant([[0.5], [16.0], [2.0]]), tf.constant([300.0, -1000.0, 12.0])
    small = with_small_numbers(Samples((features, labels), np.arange(3), 3))
    assert small is not None
    assert small.all_rows[0] is features
    assert small.all_rows[1].numpy().tolist() == [300.0 / 1024, -1000.0 / 1024, 12.0 / 1024]
    assert with_small_numbers(Samples(features, np.arange(3), 3)) is None


def test_what_code_of_keras_alone_sees_stays_common() -> None:
    rows = (tf.constant([[0.5, 2.0]] * 5), tf.constant([1, 2, 3, 3, 1]))
    samples = Samples(rows, np.arange(5), 5)
    others = list(with_other_values(samples, UsersCode(sees_inputs=False, sees_labels=False)))
    assert [other.all_rows[0].numpy()[0].tolist() for other in others] == [[0, 0], [-8, -32]]
    assert all(other.all_rows[1] is rows[1] for other in others)


def test_a_single_sample_stays_as_it_is() -> None:
    assert changed(tf.ones(1), 1) is None
