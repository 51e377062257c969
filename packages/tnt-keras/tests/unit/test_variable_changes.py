"""What a step assigns is noticed, and given back bit for bit."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.probe.runs.variable_changes import VariableChanges
from tnt_keras.step.assignments.assigning_methods import assigning_methods

ROW = tf.IndexedSlices(tf.constant([[7.0, 8.0]]), tf.constant([1]))
LOW_ROW = tf.IndexedSlices(tf.constant([[-7.0, -8.0]]), tf.constant([1]))
ASSIGNMENTS = {
    "assign": lambda v: v.assign(tf.ones((3, 2))),
    "assign_add": lambda v: v.assign_add(tf.ones((3, 2))),
    "assign_sub": lambda v: v.assign_sub(tf.ones((3, 2))),
    "scatter_add": lambda v: v.scatter_add(ROW),
    "scatter_sub": lambda v: v.scatter_sub(ROW),
    "scatter_max": lambda v: v.scatter_max(ROW),
    "scatter_min": lambda v: v.scatter_min(LOW_ROW),
    "scatter_mul": lambda v: v.scatter_mul(ROW),
    "scatter_div": lambda v: v.scatter_div(ROW),
    "scatter_update": lambda v: v.scatter_update(ROW),
    "batch_scatter_update": lambda v: v.batch_scatter_update(
        tf.IndexedSlices(tf.constant([[7.0], [8.0], [9.0]]), tf.constant([[1], [0], [1]]))
    ),
    "scatter_nd_add": lambda v: v.scatter_nd_add([[1]], [[7.0, 8.0]]),
    "scatter_nd_sub": lambda v: v.scatter_nd_sub([[1]], [[7.0, 8.0]]),
    "scatter_nd_update": lambda v: v.scatter_nd_update([[1]], [[7.0, 8.0]]),
    "a slice": lambda v: v[1:2].assign([[7.0, 8.0]]),
}
INITIAL = np.array([[1.5, -0.0], [np.nan, 4.0], [5.0, np.inf]], np.float32)


@pytest.mark.parametrize("how", ASSIGNMENTS)
def test_each_way_of_assigning_is_noticed_and_given_back_again_and_again(how: str) -> None:
    variable, untouched = tf.Variable(INITIAL), tf.Variable(1.0)
    changes = VariableChanges()
    for _ in range(3):
        with changes.watching():
            ASSIGNMENTS[how](variable)
            untouched.read_value()
        assert variable.numpy().tobytes() != INITIAL.tobytes()
        assert changes.initial(variable).numpy().tobytes() == INITIAL.tobytes()
        changes.restore()
        assert variable.numpy().tobytes() == INITIAL.tobytes()
    assert [v is variable for v in changes.variables] == [True]


def test_all_methods_that_tensorflow_has_are_tried_and_nothing_else_is_replaced() -> None:
    names = {name for _, name in assigning_methods()}
    untried = {"scatter_nd_max", "scatter_nd_min", "count_up_to"}
    [of_slices] = names - set(ASSIGNMENTS) - untried
    assert of_slices.endswith("slice_assign")
    public = {name for name in dir(tf.Variable) if "assign" in name or "scatter" in name}
    assert {name for name in public if not name.startswith("_")} <= names


def test_variables_are_listed_in_order_of_first_assignment_over_all_blocks() -> None:
    a, b = keras.Variable(1.0), tf.Variable(2.0)
    changes = VariableChanges()
    with changes.watching():
        b.assign(3.0)
    a.assign(5.0)  # outside
    with changes.watching():
        a.assign_add(1.0)
        b.assign_add(1.0)
    assert [v is w for v, w in zip(changes.variables, [b, a.value], strict=True)] == [True, True]
    assert float(changes.initial(a)) == 5.0
    assert float(changes.initial(a.value)) == 5.0
    changes.restore()
    assert (float(a), float(b)) == (5.0, 2.0)


def test_a_training_step_is_undone_with_its_optimizer_seeds_and_metrics() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"], run_eagerly=True)
    x, y = tf.ones((4, 2)), tf.ones((4, 3))
    model.build(x.shape)
    model.optimizer.build(model.trainable_variables)
    changes = VariableChanges()
    with changes.watching():
        model.train_step((x, y))
    changes.restore()
    before = [v.numpy().tobytes() for v in changes.variables]
    assert {v.ref() for v in changes.variables} >= {
        v.value.ref()
        for v in [*model.weights, *model.optimizer.variables]
        if v.name != "learning_rate"
    }
    first = float(model.train_step((x, y))["loss"])
    assert [v.numpy().tobytes() for v in changes.variables] != before
    changes.restore()
    assert [v.numpy().tobytes() for v in changes.variables] == before
    assert float(model.train_step((x, y))["loss"]) == first


def test_assignments_in_a_traced_function_are_noticed() -> None:
    variable = tf.Variable(1.0)

    @tf.function
    def step() -> None:
        variable.assign_add(1.0)

    changes = VariableChanges()
    with changes.watching():
        step()
    assert float(variable) == 2.0
    changes.restore()
    assert float(variable) == 1.0


def test_assigning_does_not_make_a_tape_watch() -> None:
    variable = tf.Variable(1.0)
    with VariableChanges().watching(), tf.GradientTape() as tape:
        variable.assign(2.0, read_value=False)
    assert tape.watched_variables() == ()


def test_other_threads_and_other_times_do_not_count() -> None:
    variable = tf.Variable(1.0)
    changes = VariableChanges()
    with changes.watching():
        other = threading.Thread(target=lambda: variable.assign(2.0))
        other.start()
        other.join()
    variable.assign_add(1.0)
    assert changes.variables == []
    with pytest.raises(KeyError):
        changes.initial(variable)
    assert float(variable) == 3.0


def test_watching_within_watching_tells_both() -> None:
    variable = tf.Variable(1.0)
    outer, inner = VariableChanges(), VariableChanges()
    with outer.watching():
        variable.assign(2.0)
        with inner.watching():
            variable.assign(3.0)
    assert (float(outer.initial(variable)), float(inner.initial(variable))) == (1.0, 2.0)
