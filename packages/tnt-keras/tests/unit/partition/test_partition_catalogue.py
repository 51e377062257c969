"""Trainings of models of all kinds give in replicas what plain Keras gives.

The catalogue is that of the tests with ranks, which run a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import keras
import pytest
from cases import cases
from model_catalogue import CASES, Case
from model_catalogue.training import BOUNDS
from packaging.version import Version
from step_replicas import StepInReplicas, all_steps, usual_replicas
from test_partition_steps import SHORT as SHORT_STEPS
from test_partition_steps import STEPS
from unseen.comparison import deviations, in_numbers_of_replicas, serially

from tnt_keras.partition.plan import Alias, Known
from tnt_keras.partition.value import Handle, Replicated

# The models are written as others write theirs, and warn as theirs do.
pytestmark = pytest.mark.filterwarnings("ignore")

EAGER = {
    *("run_eagerly", "metric_with_a_list_in_python", "moving_baseline_in_an_attribute"),
    *("loss_kept_in_an_attribute", "steps_counted_in_an_attribute", "noise_of_numpy"),
    *("noise_of_python", "neighbours_mixed_by_a_number_of_numpy"),
}
"""Cases whose steps have no graph."""

COUNTS_IN_PYTHON = {"count_in_python", "term_in_a_graph_that_is_made_anew"}
"""Cases whose models keep attributes of Python from one run to the next."""

FIRST_KERAS = {"tags_of_masked_sequences": "3.9"}
"""Cases that older releases of Keras cannot train: `TimeDistributed` refused unknown batches."""

_SHORT = """
accumulated_gradients augmented_images image_and_text_contrast loss_scaling masked_texts
mean_error_of_last_batch mean_over_users_of_their_means median_of_large_batches
missing_features_get_the_mean_of_the_batch positions_with_adagrad
texts_cut_to_the_longest_one_and_long_at_first total_in_a_tensorflow_variable
"""
SHORT = frozenset(_SHORT.split())
"""Cases that reach, with the short run of `test_partition_steps`, what the catalogue reaches.

That is every type of operation on rows or totals. They were chosen greedily.
"""

_reached: dict[str, set[str]] = {}


def _allowed(case: Case, expected: dict[str, object]) -> dict[str, float]:
    """What is rounding of each value: more where one unit in the last place of weights is more."""
    moved = deviations(serially(case, ulps=1), expected)  # type: ignore[arg-type]
    return {name: max(BOUNDS[case.policy], 10 * apart) for name, apart in moved.items()}


@cases(
    "name",
    [name for name in CASES if name not in EAGER if name in SHORT],
    thorough=[name for name in CASES if name not in EAGER],
)
def test_a_training_in_replicas_is_that_of_plain_keras(name: str) -> None:
    case = CASES[name]
    if Version(keras.__version__) < Version(FIRST_KERAS.get(name, "0")):
        pytest.skip(f"Keras {FIRST_KERAS[name]} is the first that can train it.")
    expected = serially(case)
    numbers = usual_replicas()
    runs = [[n] for n in numbers] if name in COUNTS_IN_PYTHON else [numbers]
    for replicas, values, steps in chain.from_iterable(
        in_numbers_of_replicas(case, n) for n in runs
    ):
        apart = deviations(values, expected)
        if max(apart.values()) > BOUNDS[case.policy]:
            allowed = _allowed(case, expected)
            wrong = {name: value for name, value in apart.items() if value > allowed[name]}
            assert not wrong, f"in {replicas} replicas"
        for kind in steps.values():
            for built, _ in kind.built.values():
                _reached.setdefault(name, set()).update(_types_in(built.plan))


def _types_in(plan: Any) -> Iterator[str]:
    """The types of operations on rows or totals."""
    for step in all_steps(plan):
        if not isinstance(step, Known | Alias) and any(
            not isinstance(v.placement, Replicated | Handle) for v in step.inputs
        ):
            yield step.node.type


@pytest.mark.thorough
def test_the_short_run_reaches_every_type_of_operation() -> None:
    if len(_reached) < len(CASES) - len(EAGER):
        pytest.skip("The trainings of all cases have not run before.")
    reached = set().union(*(_reached[name] for name in SHORT))
    for case in (STEPS[name] for name in SHORT_STEPS):
        weights, batch = case.new_weights(), case.batch(4)
        step = StepInReplicas(case.train_step(weights), batch, variables=[weights])
        reached.update(_types_in(step.step(batch, 3).plan))
    assert set().union(*_reached.values()) <= reached
