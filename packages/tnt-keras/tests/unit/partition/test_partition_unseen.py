"""Training scripts that no rule was written for give in replicas what plain Keras gives."""

from __future__ import annotations

import pytest
from unseen import CASES
from unseen.comparison import deviations, gathered, in_numbers_of_replicas, serially

# The scripts are written as others write theirs, and warn as theirs do.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_a_script_trains_in_replicas_as_in_plain_keras(name: str) -> None:
    case = CASES[name]
    expected = serially(case)
    allowed = dict.fromkeys(expected, case.rtol)
    if case.amplifies:
        moved = deviations(serially(case, ulps=1), expected)
        allowed = {k: max(case.rtol, 10 * v) for k, v in moved.items()}
    for replicas, values, steps in in_numbers_of_replicas(case, (2, 3)):
        apart = deviations(values, expected)
        wrong = {k: v for k, v in apart.items() if v > allowed[k]}
        assert not wrong, f"in {replicas} replicas"
        assert gathered(steps) <= case.gathers
