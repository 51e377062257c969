"""Trainings of models of all kinds give in lanes what plain Keras gives.

The catalogue is that of the tests with ranks, which run a part of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from step_lanes import all_steps
from unseen.comparison import deviations, in_numbers_of_lanes, serially

from tnt_keras.partition.placement import Handle, Replicated
from tnt_keras.partition.plan import Alias, Known

sys.path.append(str(Path(__file__).parents[2] / "ranks"))

from probe_models import CASES, Case
from probe_models.training import BOUNDS

# The models are written as others write theirs, and warn as theirs do.
pytestmark = pytest.mark.filterwarnings("ignore")

EAGER = {
    *("run_eagerly", "metric_with_a_list_in_python", "steps_counted_in_an_attribute"),
    *("noise_of_numpy", "noise_of_python"),
}
"""Cases whose steps have no graph."""

_SHORT = """
accumulated_gradients advantages_normalised_by_batch assignments_balanced_over_batch
augmented_images batches_of_one_row_are_not_normalized categories_and_crosses circle_loss
classes_balanced_by_batch codebook_of_moving_averages confusion_counts
connectionist_temporal_classification convolution_over_time cutmix_with_next_sample
dictionaries_of_inputs_and_outputs divergence_and_poisson f1_as_function
features_decorrelated_over_batch forecast_of_time_series gated_recurrent_units
gradients_clipped_above_the_first_ones gradients_clipped_by_value_before_apply hinge_losses
image_and_text_contrast large_memory_of_which_rows_are_written
largest_error_after_a_batch_of_zeros largest_errors_of_a_limited_number lenet
lengths_that_differ_later loss_scaling low_rank_adaptation masked_texts maximum_mean_discrepancy
mean_error_of_last_batch mean_over_positive_samples mean_over_users_of_their_means
median_of_large_batches memory_bank missing_features_get_the_mean_of_the_batch mobilenet_block
positions_with_adagrad positions_with_rmsprop prototypes_of_classes ranking_of_pairs
relativistic_average_critic segmentation several_labels siamese_pairs
smallest_error_after_infinity tags_of_masked_sequences term_if_any_sample_is_of_a_class
texts_cut_to_the_longest_one_and_long_at_first top_two_of_three total_in_a_tensorflow_variable
transformer_encoder wide_and_deep
"""
SHORT = frozenset(_SHORT.split())
"""Cases that reach together every type of operation on rows or totals that the catalogue reaches.

They were chosen greedily by how much they reach in a second; then by types and placements.
"""

_reached: dict[str, set[str]] = {}


def _allowed(case: Case, expected: dict[str, object]) -> dict[str, float]:
    """What is rounding of each value: more where one unit in the last place of weights is more."""
    moved = deviations(serially(case, ulps=1), expected)  # type: ignore[arg-type]
    return {name: max(BOUNDS[case.policy], 10 * apart) for name, apart in moved.items()}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in SHORT else pytest.mark.thorough)
        for name in CASES
        if name not in EAGER
    ],
)
def test_a_training_in_lanes_is_that_of_plain_keras(name: str) -> None:
    case = CASES[name]
    expected = serially(case)
    for lanes, values, steps in in_numbers_of_lanes(case, (2, 3)):
        apart = deviations(values, expected)
        if max(apart.values()) > BOUNDS[case.policy]:
            allowed = _allowed(case, expected)
            wrong = {name: value for name, value in apart.items() if value > allowed[name]}
            assert not wrong, f"in {lanes} lanes"
        _reached.setdefault(name, set()).update(
            step.node.type
            for kind in steps.values()
            for built, _ in kind.built.values()
            for step in all_steps(built.plan)
            if not isinstance(step, Known | Alias)
            and any(not isinstance(v.placement, Replicated | Handle) for v in step.inputs)
        )


@pytest.mark.thorough
def test_the_short_run_reaches_every_type_of_operation() -> None:
    if len(_reached) < len(CASES) - len(EAGER):
        pytest.skip("The trainings of all cases have not run before.")
    reached = set().union(*(_reached[name] for name in SHORT))
    assert set().union(*_reached.values()) <= reached
