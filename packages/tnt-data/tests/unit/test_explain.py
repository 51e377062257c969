"""What `explain` says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import tensorflow as tf

import tnt_data

Data = tf.data.Dataset


def table(text: str) -> dict[str, str]:
    """What happens with each step, by the step."""
    rows = [line.split(" | ") for line in text.splitlines() if " | " in line]
    return {step.strip(): action for step, action in rows[1:]}


def test_each_step_is_listed_with_what_happens_to_it() -> None:
    dataset = Data.range(100).shuffle(10).shuffle(5, seed=0)
    dataset = dataset.map(lambda x: x, num_parallel_calls=2, deterministic=False)
    dataset = dataset.batch(8, drop_remainder=True).cache().prefetch(2)
    text = tnt_data.explain(dataset, 3, seed=7)
    assert "Of 8 samples rank r of 3 takes batch[r::3]: 3, 3, 2 samples." in text
    assert "cheaper to cut" in text
    kept = "kept, on every rank for all samples"
    assert table(text) == {
        "range()": kept,
        "shuffle(10)": f"{kept}; gets a seed (from 7)",
        "shuffle(5)": f"{kept}; keeps its seed",
        "map(<lambda>)": f"{kept}; made deterministic",
        "batch(8, drop_remainder=True)": "kept; each rank's rows are cut out after it",
        "cache()": "repeated on micro-batches",
        "prefetch(2)": "repeated on micro-batches",
    }


def test_branches_are_indented() -> None:
    dataset = Data.zip((Data.range(9), Data.range(9))).batch(4)
    lines = tnt_data.explain(dataset, 2).splitlines()
    assert sum(line.startswith("  range()") for line in lines) == 2


REASONS: dict[str, tuple[Callable[[], tf.data.Dataset], str]] = {
    "function": (lambda: Data.range(9).batch(4).map(abs), r"map\(abs\) .* may mix the samples"),
    "padding": (lambda: Data.range(9).map(tf.range).padded_batch(4), r"padding of padded_batch"),
    "ragged": (lambda: Data.range(9).map(tf.range).ragged_batch(4), "dense and of one shape"),
    "small": (lambda: Data.range(9).batch(4), "32 bytes is cheaper to cut"),
    "joined": (lambda: Data.range(9).batch(4).enumerate(), r"after zip\(\) .* already joined"),
    "own way": (lambda: Data.range(9).batch(3).rebatch(4), r"rebatch\(4\) joins .* own way"),
    "picked": (
        lambda: Data.from_tensors(tf.ones([400, 400])).batch(4),
        r"Way: rows are picked .* same known shape",
    ),
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
    assert table(text)["batch(4)"] == "kept; batches are counted after it"


def test_what_stays_different_between_ranks_is_said() -> None:
    dataset = Data.range(3).flat_map(lambda _: Data.range(5).shuffle(3)).batch(4)
    text = tnt_data.explain(dataset, 2)
    assert "Warning: the functions of flat_map() shuffle without a seed." in text
    assert "Warning" not in tnt_data.explain(dataset, 1)


def test_batch_that_would_be_added_is_shown() -> None:
    text = tnt_data.explain(Data.range(9), 2, micro_batch_size=3)
    assert "the last batch step is batch(6)" in text


def test_guess_is_called_a_guess() -> None:
    dataset = Data.range(9).batch(4).flat_map(Data.from_tensors)
    assert tnt_data.explain(dataset, 2).startswith("Batched (guessed): all components")
