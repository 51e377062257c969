"""Training scripts that no rule was written for give in lanes what plain Keras gives."""

from __future__ import annotations

import pytest
from unseen import CASES
from unseen.comparison import deviations, gathered, in_numbers_of_lanes, serially

# The scripts are written as others write theirs, and warn as theirs do.
pytestmark = pytest.mark.filterwarnings("ignore")

# Those that take the least time, of each subject.
SHORT = {
    "attention_over_dense_adjacency",
    "codebook_by_moving_averages_with_dead_codes",
    "confusion_and_calibration_of_own_metrics",
    "critic_with_penalised_gradients_and_several_turns",
    "domains_told_apart_through_a_reversed_gradient",
    "factors_of_users_and_items_with_sampled_negatives",
    "hazards_ranked_within_the_batch",
    "natural_gradients_by_factors",
    "nodes_of_one_graph_trained_by_batches",
    "patterns_stored_and_retrieved",
    "preconditioned_by_roots_of_matrices",
    "ranking_by_lists_and_pairs",
    "relaxed_categories_with_falling_temperature",
    "sharpness_aware_minimisation",
    "values_of_actions_replayed_with_priorities",
}


@pytest.mark.parametrize(
    "name",
    [n if n in SHORT else pytest.param(n, marks=pytest.mark.thorough) for n in CASES],
)
def test_a_script_trains_in_lanes_as_in_plain_keras(name: str) -> None:
    case = CASES[name]
    expected = serially(case)
    allowed = dict.fromkeys(expected, case.rtol)
    if case.amplifies:
        moved = deviations(serially(case, ulps=1), expected)
        allowed = {k: max(case.rtol, 10 * v) for k, v in moved.items()}
    for lanes, values, steps in in_numbers_of_lanes(case, (2, 3)):
        apart = deviations(values, expected)
        wrong = {k: v for k, v in apart.items() if v > allowed[k]}
        assert not wrong, f"in {lanes} lanes"
        assert gathered(steps) <= case.gathers
