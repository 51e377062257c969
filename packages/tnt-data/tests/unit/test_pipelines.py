"""Random pipelines: every step of all ranks together is the serial batch, in both ways."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_pipelines import random_pipeline
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches

from tnt_data import Pipeline, RowSplit
from tnt_data.plan.split import Way, plan_split
from tnt_data.transformations.read import read_transformations

AT_LEISURE = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
# The profile decides how many pipelines are drawn: of 100 examples that it asks for, so many.
SHARED, TYPES = (settings().max_examples * part // 100 for part in (30, 10))
# Numbers that hypothesis does not look at: it would draw variants of a few pipelines.
RANDOM = st.randoms(use_true_random=True)
WAYS = [PICK, PICK, SLICE]


@pytest.mark.timeout(1200)  # some 50 s of work, many times that on a busy machine
def test_steps_of_all_ranks_are_the_serial_batches() -> None:
    moved: list[bool] = []

    @settings(AT_LEISURE, max_examples=SHARED)
    @given(RANDOM)
    def check(random: Random) -> None:
        words, build = random_pipeline(random)
        size, epochs, way = random.randint(1, 7), random.randint(1, 3), random.choice(WAYS)
        lanes = size * random.randint(1, 3)
        note(f"{words}; {size} ranks, {lanes} lanes, {epochs} epochs")
        plan = plan_split(read_transformations(build(None)), size, way)
        moved.append(plan.way is Way.PICK and plan.pushdown.saves_work)
        assert_ranks_share_serial_batches(
            lambda: build(None), lambda: build(42), size, way=way, epochs=epochs, lanes=lanes
        )

    check()
    assert sum(moved) >= SHARED // 4  # the pipelines that are worth the trouble are among them


@pytest.mark.timeout(1200)
@settings(AT_LEISURE, max_examples=TYPES)
@given(RANDOM)
def test_both_ways_have_the_same_types_and_the_serial_cardinality(random: Random) -> None:
    words, build = random_pipeline(random)
    size = random.randint(2, 7)
    lanes = size * random.randint(1, 3)
    note(f"{words}; {size} ranks, {lanes} lanes")
    serial = build(42)
    for rank in (0, size - 1):
        picked, cut = (
            Pipeline(build(None))._distribute(RowSplit(rank, size, lanes), None, 42, False, way)
            for way in (PICK, SLICE)
        )
        assert picked.element_spec == cut.element_spec
        assert int(picked.cardinality()) == int(cut.cardinality()) == int(serial.cardinality())
