"""Random pipelines: every step of all ranks together is the serial batch, in both ways."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_pipelines import Build, builds
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches

from tnt_data.distribution import _distribute
from tnt_data.planning import Way, plan_split
from tnt_data.tensorflow_private import read_pipeline

AT_LEISURE = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def test_steps_of_all_ranks_are_the_serial_batches() -> None:
    moved: list[bool] = []

    @settings(AT_LEISURE, max_examples=40)
    @given(builds(), st.integers(1, 7), st.integers(1, 3), st.sampled_from([PICK, SLICE]))
    def check(drawn: tuple[str, Build], size: int, epochs: int, way: int) -> None:
        _, build = drawn
        plan = plan_split(read_pipeline(build(None)), size, way)
        moved.append(plan.way is Way.PICK and plan.move.saves_work)
        assert_ranks_share_serial_batches(
            lambda: build(None), lambda: build(42), size, way=way, epochs=epochs
        )

    check()
    assert sum(moved) >= 20  # the pipelines that are worth the trouble are among them


@settings(AT_LEISURE, max_examples=12)
@given(builds(), st.integers(2, 7))
def test_both_ways_have_the_same_types_and_the_serial_cardinality(
    drawn: tuple[str, Build], size: int
) -> None:
    _, build = drawn
    serial = build(42)
    for rank in (0, size - 1):
        picked, cut = (_distribute(build(None), rank, size, None, 42, way) for way in (PICK, SLICE))
        assert picked.element_spec == cut.element_spec
        assert int(picked.cardinality()) == int(cut.cardinality()) == int(serial.cardinality())
