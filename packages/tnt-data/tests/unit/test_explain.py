"""What `explain` says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import tensorflow as tf

import tnt_data

Data = tf.data.Dataset


def upside_down(x: tf.Tensor) -> tf.Tensor:
    return x[::-1]


def times_two(x: tf.Tensor) -> tf.Tensor:
    return 2 * x


def table(text: str) -> dict[str, tuple[str, ...]]:
    """What is done with each transformation, its seed and details, by its text."""
    rows = [line.split(" | ") for line in text.splitlines() if " | " in line]
    return {row[0].strip(): tuple(cell.strip() for cell in row[1:]) for row in rows[1:]}


def test_each_transformation_is_listed_with_what_is_done_with_it() -> None:
    dataset = Data.range(100).shuffle(10).map(abs).shuffle(5, seed=0)
    dataset = dataset.map(times_two, num_parallel_calls=2, deterministic=False)
    dataset = dataset.batch(8, drop_remainder=True).cache().prefetch(2)
    assert table(tnt_data.explain(dataset, 3, seed=7)) == {
        "range()": ("kept", "", "for all samples"),
        "shuffle(10)": ("rebuilt", "gets 7", "for all samples; seeded"),
        "map(abs)": ("moved", "", "after the pick: for this rank's samples only"),
        "shuffle(5)": ("kept", "0", "for all samples"),
        "map(times_two)": (
            "moved",
            "",
            "after the pick: for this rank's samples only; made deterministic",
        ),
        "batch(8, drop_remainder=True)": ("rebuilt", "", "joins this rank's samples only"),
        "cache()": ("rebuilt", "", "on micro-batches; filled in the first pass"),
        "prefetch(2)": ("rebuilt", "", "on micro-batches"),
    }


def test_samples_of_each_rank_are_given_for_the_first_and_the_last_batch() -> None:
    def sizes(dataset: tf.data.Dataset, size: int) -> list[str]:
        return [line for line in tnt_data.explain(dataset, size).splitlines() if "atch" in line][
            1:3
        ]

    assert sizes(Data.range(12).batch(8), 3) == [
        "Rank r of 3 takes batch[r::3]. First batch: 8 samples, 3, 3, 2 on ranks 0 to 2.",
        "Last batch of a pass: 4 samples, 2, 1, 1 on ranks 0 to 2.",
    ]
    assert sizes(Data.range(12).batch(8, drop_remainder=True), 2)[1].endswith(
        "8 samples, 4, 4 on ranks 0 to 1."
    )
    first, last = sizes(Data.range(3).batch(8), 9)
    assert first.endswith("3 samples, 1, 1, 1, 0, 0, 0, 0, 0, ... on ranks 0 to 8.")
    assert last.endswith("3 samples, 1, 1, 1, 0, 0, 0, 0, 0, ... on ranks 0 to 8.")
    unknown = Data.range(12).filter(lambda x: x > 3).batch(8)
    assert sizes(unknown, 2)[1] == "Last batch: its size is not known before it is read."


def test_transformation_that_ends_the_search_is_listed_with_the_reason() -> None:
    dataset = Data.range(9).map(abs).filter(lambda x: x > 2).map(times_two).batch(4)
    rows = table(tnt_data.explain(dataset, 2))
    assert rows["map(abs)"] == ("kept", "", "for all samples")
    assert rows["map(times_two)"][0] == "moved"
    (limit,) = [row for text, row in rows.items() if text.startswith("filter")]
    assert limit[2] == (
        "for all samples, and what comes before it too: it does not make one sample out of each"
    )


def test_branches_are_indented_and_independent_shuffles_get_their_own_seeds() -> None:
    dataset = Data.zip((Data.range(9).shuffle(5), Data.range(9).shuffle(6))).batch(4)
    text = tnt_data.explain(dataset, 2)
    assert sum(line.startswith("  range()") for line in text.splitlines()) == 2
    assert table(text)["shuffle(5)"][1] == "gets 42"
    assert table(text)["shuffle(6)"][1] == "gets 43"


def unknown_length(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset.flat_map(
        lambda x: Data.from_generator(
            lambda n: iter([range(n)]), args=(x,), output_signature=tf.TensorSpec([None])
        )
    )


REASONS: dict[str, tuple[Callable[[], tf.data.Dataset], str]] = {
    "function after": (
        lambda: Data.range(9).batch(4).map(upside_down),
        r"map\(upside_down\) .* may mix the samples",
    ),
    "padding": (lambda: Data.range(9).map(tf.range).padded_batch(4), r"padding of padded_batch"),
    "sparse": (
        lambda: Data.range(9).map(lambda x: tf.sparse.from_dense(tf.range(x))).batch(4),
        "padding of batch",
    ),
    "small": (lambda: Data.range(9).batch(4), "32 bytes is cheaper to cut"),
    "nothing saved": (lambda: Data.range(9).apply(unknown_length).batch(4), "size .* is unknown"),
    "joined": (lambda: Data.range(9).batch(4).enumerate(), r"after zip\(\) .* already joined"),
    "own way": (lambda: Data.range(9).batch(3).rebatch(4), r"rebatch\(4\) joins .* own way"),
    "picked": (
        lambda: Data.from_tensors(tf.ones([400, 400])).batch(4),
        r"Way: rows are picked .* do not depend on each other",
    ),
    "function": (lambda: Data.range(9).map(abs).batch(4), r"Way: rows are picked"),
}


@pytest.mark.parametrize("case", REASONS)
def test_the_reason_for_the_way_is_given(case: str) -> None:
    make, text = REASONS[case]
    explanation = tnt_data.explain(make(), 2)
    (line,) = [line for line in explanation.splitlines() if line.startswith("Way: ")]
    assert re.search(text, line)


def test_single_rank_takes_whole_batches() -> None:
    text = tnt_data.explain(Data.range(9).batch(4), 1)
    assert "a single rank takes whole batches" in text
    assert table(text)["batch(4)"][2] == "batches are counted after it"


def test_what_stays_different_between_ranks_is_said() -> None:
    dataset = Data.range(9).filter(lambda _: tf.random.uniform([]) < 0.5).batch(4)
    text = tnt_data.explain(dataset, 2)
    assert re.search(r"Warning: filter\(.*\) decides with random numbers without a seed\.", text)
    assert "Warning" not in tnt_data.explain(dataset, 1)


def test_seeds_inside_of_functions_are_listed() -> None:
    dataset = Data.range(3).flat_map(lambda _: Data.range(5).shuffle(3)).batch(4)
    done, seed, details = table(tnt_data.explain(dataset, 2))["flat_map()"]
    assert (done, seed) == ("rebuilt", "gets 42")
    assert details.endswith("; seeded inside")


def test_batch_that_would_be_added_is_shown() -> None:
    text = tnt_data.explain(Data.range(9), 2, micro_batch_size=3)
    assert "the last transformation that makes batches is batch(6)" in text


def test_guess_is_called_a_guess() -> None:
    dataset = Data.from_tensors((tf.ones([7, 2]), tf.ones(7)))
    guess, sizes, last, *_ = tnt_data.explain(dataset.repeat(2), 2).splitlines()
    assert guess.startswith("Batched (guessed): all components of repeat(2) share")
    assert sizes.endswith("First batch: 7 samples, 4, 3 on ranks 0 to 1.")
    assert last.endswith("7 samples, 4, 3 on ranks 0 to 1.")


def test_doubt_about_single_samples_is_a_warning_with_both_ways_out() -> None:
    text = tnt_data.explain(Data.from_tensor_slices(tf.ones([9, 3])), 2)
    (warning,) = [line for line in text.splitlines() if line.startswith("Warning: ")]
    assert "batch of 3 samples" in warning
    assert ".batch(n)" in warning
    assert "micro-batch size" in warning
