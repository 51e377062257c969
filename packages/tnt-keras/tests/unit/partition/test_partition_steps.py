"""Training steps of every kind give in lanes what TensorFlow gives, and gather no more than they must."""

from __future__ import annotations

import pytest
import steps_of_batches
import steps_of_data
import steps_of_loops
import steps_of_shapes
from step_lanes import StepInLanes, assert_step, gathered

STEPS = {
    name: case
    for module in (steps_of_shapes, steps_of_batches, steps_of_loops, steps_of_data)
    for name, case in module.STEPS.items()
}
thorough = pytest.mark.thorough
# One row in some lanes, as many rows as other axes have; uneven lanes; even lanes; a row in each.
ROWS_AND_LANES = [(4, 3), *(pytest.param((n, v), marks=thorough) for n, v in ((5, 2), (6, 3), (5, 5)))]


@pytest.mark.parametrize("rows_and_lanes", ROWS_AND_LANES, ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_in_lanes_is_that_of_the_whole_batch(name: str, rows_and_lanes: tuple[int, int]) -> None:
    case, (rows, lanes) = STEPS[name], rows_and_lanes
    weights = case.new_weights()
    batches = [case.batch(rows), case.batch(rows, seed=1)]
    step = StepInLanes(case.train_step(weights), batches[0], variables=[weights])
    assert_step(step, *batches, lanes=[lanes], rtol=case.rtol)
    assert set(gathered(step)) <= set(GATHERED.get(name, "").split())


# The types of operations that need other rows than their own, or that have no rule, by step.
GATHERED: dict[str, str] = {}
