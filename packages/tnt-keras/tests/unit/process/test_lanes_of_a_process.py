"""Lanes of a process: on how many ranks they can be, and what goes with them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tnt_keras
from tnt_keras.process import lanes, rank


@pytest.mark.parametrize(
    ("number", "sizes"),
    [
        (1, [1]),
        (4, [1, 2, 4]),
        (6, [1, 3, 6]),  # 3 lanes of a rank are no branch of ((0+1)+(2+3))+(4+5)
        (8, [1, 2, 4, 8]),
        (12, [1, 3, 6, 12]),
        (15, [1, 5, 15]),
        (2**31 - 1, [1, 2**31 - 1]),
    ],
)
def test_lanes_are_on_numbers_of_ranks_whose_lanes_are_summed_first(
    number: int, sizes: list[int]
) -> None:
    assert lanes.valid_sizes(number) == sizes


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Gives what makes this process one of so many ranks, with variables of the environment."""

    def of(size: int = 1, **variables: str) -> None:
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        rank.settings.cache_clear()
        monkeypatch.setattr(lanes, "get_size", lambda: size)

    monkeypatch.setattr(lanes, "_given", None)
    monkeypatch.setattr(lanes, "_is_in_use", False)
    # What it switches on cannot be switched off again, and other tests draw without a seed.
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: None)
    yield of
    rank.settings.cache_clear()


@pytest.mark.parametrize("number", [0, -2, 2.0, True, "4"])
def test_a_number_of_lanes_is_a_positive_integer(number: Any, process: Callable[..., None]) -> None:
    process()
    with pytest.raises(ValueError, match=f"Received: lanes={number!r}"):
        lanes.use_lanes(number)


def test_a_number_of_ranks_that_cannot_share_them_is_refused_with_those_that_can(
    process: Callable[..., None],
) -> None:
    process(size=2)
    with pytest.raises(ValueError, match="6 lanes can be on 1, 3 or 6 ranks, not on 2"):
        lanes.use_lanes(6)
    assert lanes.given_lanes() is None


def test_a_process_has_one_number_of_lanes(process: Callable[..., None]) -> None:
    process(TNT_LANES="4")
    lanes.use_lanes(4)
    with pytest.raises(ValueError, match="lanes=2, after 4 from --lanes"):
        lanes.use_lanes(2)


def test_lanes_come_before_batches_are_split(process: Callable[..., None]) -> None:
    process(size=2)
    assert lanes.num_lanes() == 2
    with pytest.raises(RuntimeError, match="lanes=4 comes too late"):
        lanes.use_lanes(4)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("TNT_WIRE_DTYPE", "bfloat16", "Remove --wire-dtype"),
        ("TNT_SUM_TREE", "2x2", "TNT_SUM_TREE must not be set"),
    ],
)
def test_what_gives_sums_another_order_or_rounding_is_refused(
    name: str, text: str, message: str, process: Callable[..., None]
) -> None:
    process(**{name: text})
    with pytest.raises(ValueError, match=message):
        lanes.use_lanes(4)


def test_draws_of_each_rank_are_refused(process: Callable[..., None]) -> None:
    process(TNT_LANES="4")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="draws='local' and 4 lanes"):
        tnt_keras.Model(model, draws="local")


def test_a_model_that_is_distributed_already_takes_lanes_or_refuses_them(
    process: Callable[..., None],
) -> None:
    process()
    model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    tnt_keras.Model(model, lanes=4)
    assert lanes.given_lanes() == 4
    with pytest.raises(ValueError, match="lanes=2, after 4"):
        tnt_keras.Model(model, lanes=2)


def test_what_a_model_is_given_without_a_seed_or_with_other_threads_is_told(
    process: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process(TF_NUM_INTRAOP_THREADS="3")
    monkeypatch.setattr(lanes, "is_seeded", lambda: False)
    monkeypatch.setattr(rank.logger, "propagate", True)
    states = np.random.get_state()
    with caplog.at_level(logging.INFO, "tnt_keras"):
        lanes.use_lanes(2 * (os.cpu_count() or 1))
    np.random.set_state(states)
    texts = [record.getMessage() for record in caplog.records]
    assert any("[lanes-without-seed]" in text for text in texts)
    assert any("in 3 threads" in text and "[lanes-threads]" in text for text in texts)
    assert any("deterministic operations, seed 42" in text for text in texts)
