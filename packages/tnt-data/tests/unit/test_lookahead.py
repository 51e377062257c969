"""A cache after a shuffle is filled in the first pass, also by a loop that counts its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

import tnt_data
from tnt_data.rank_dataset.lookahead import read_one_ahead

Data = tf.data.Dataset
Make = Callable[[], tf.data.Dataset]


def counted_passes(dataset: tf.data.Dataset, num_steps: int) -> list[list[int]]:
    """Three passes of exactly so many steps, which never look for the end."""
    passes = []
    for _ in range(3):
        steps = iter(dataset)
        passes.append([int(x) for _ in range(num_steps) for x in next(steps).data])
        del steps
    return passes


NUMBERS = Data.range(8).shuffle(8)
CACHES: dict[str, Make] = {
    "before the batch": lambda: NUMBERS.cache().batch(4),
    "moved": lambda: NUMBERS.map(lambda x: x + 1).cache().batch(4),
    "after the batch": lambda: NUMBERS.batch(4).cache(),
    "before another map": lambda: NUMBERS.cache().map(lambda x: x, num_parallel_calls=2).batch(4),
    "before a shuffle that changes nothing": lambda: NUMBERS.cache().shuffle(1).batch(4),
}


@pytest.mark.parametrize("case", CACHES)
@pytest.mark.parametrize("size", [1, 2])
def test_order_of_the_first_pass_is_kept(case: str, size: int) -> None:
    by_rank = [
        counted_passes(tnt_data.distribute(CACHES[case](), rank, size), 2) for rank in range(size)
    ]
    for first, *others in by_rank:
        assert others == [first] * 2
    assert len({x for passes in by_rank for x in passes[0]}) == 8


def test_cache_in_a_file_is_complete_after_the_first_pass(tmp_path: Path) -> None:
    dataset = NUMBERS.cache(str(tmp_path / "numbers")).batch(4)
    first, *others = counted_passes(tnt_data.distribute(dataset, 0, 1), 2)
    assert others == [first] * 2
    assert not [path.name for path in tmp_path.iterdir() if "lockfile" in path.name]


def test_cache_without_a_shuffle_before_it_stays_that_of_the_user() -> None:
    assert "filled" not in tnt_data.explain(Data.range(8).cache().shuffle(8).batch(4), 2)
    assert "filled in the first pass" in tnt_data.explain(NUMBERS.cache().batch(4), 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Data.range(5),
        lambda: Data.range(0),
        lambda: Data.range(5).map(lambda x: (x, {"a": tf.fill([x], x)})),
        lambda: Data.range(5).repeat().take(-1),
        lambda: Data.range(9).filter(lambda x: x % 2 == 0),
    ],
    ids=["numbers", "nothing", "structure", "without end", "unknown length"],
)
def test_reading_ahead_changes_no_element(make: Make) -> None:
    ahead = read_one_ahead(make())
    assert ahead.element_spec == make().element_spec
    assert int(ahead.cardinality()) == int(make().cardinality())
    assert repr(list(ahead.take(12))) == repr(list(make().take(12)))
