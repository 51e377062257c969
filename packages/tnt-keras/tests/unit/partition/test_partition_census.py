"""What steps of Keras are made of has a rule, or stands in a list with the reason why not."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
import tensorflow as tf
from census import RECORD, UNTRACED, keras_census, lines_of, operation_types, versions
from census_tracing import example, traced_types
from census_values import VECTORS
from packaging.version import Version

from tnt_keras.partition import rules  # noqa: F401 - fills the table
from tnt_keras.partition.lists import LIST_RULES
from tnt_keras.partition.random_ops import DTYPES_OF_DRAWS
from tnt_keras.partition.rules.registry import ruled_types

NEWEST = Version("3.15")
is_newest = pytest.mark.skipif(
    Version(keras.__version__) < NEWEST, reason="other versions of Keras emit fewer types"
)


def without_rule() -> dict[str, str]:
    """Operation type -> the reason why it has no rule, as the list says."""
    lines = Path(__file__).with_name("census_without_rule.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def types_with_rule() -> frozenset[str]:
    return ruled_types() | LIST_RULES.keys() | frozenset(DTYPES_OF_DRAWS)


def test_operation_types_of_keras_have_a_rule_or_a_reason() -> None:
    known = types_with_rule() | without_rule().keys()
    users = {name: of for name, of in operation_types().items() if name not in known}
    assert users == {}


@pytest.mark.thorough
def test_the_record_is_what_a_census_finds() -> None:
    found, *lines = RECORD.read_text(encoding="utf-8").splitlines()
    if found != versions():
        pytest.skip(f"The record is of {found}; this run has traced all names of {versions()}.")
    assert lines == lines_of(keras_census())


@is_newest
def test_the_list_holds_only_what_keras_still_emits() -> None:
    assert without_rule().keys() - operation_types().keys() == set()


def test_what_has_a_rule_needs_no_reason() -> None:
    assert without_rule().keys() & types_with_rule() == set()


def test_the_list_is_in_order_and_gives_reasons() -> None:
    assert list(without_rule()) == sorted(without_rule())
    assert all(len(reason.split()) > 2 for reason in without_rule().values())


@pytest.mark.thorough
@is_newest
def test_all_public_names_of_keras_are_traced_but_those_with_a_reason() -> None:
    errors = keras_census().untraced()
    assert {name: error for name, error in errors.items() if name not in UNTRACED} == {}
    assert UNTRACED.keys() - errors.keys() == set()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "operation_type"),
    [
        ("keras.layers.LSTM", "CudnnRNNBackpropV3"),
        ("keras.layers.Conv2D", "Conv2DBackpropFilter"),
        ("keras.layers.Embedding", "GatherV2"),
        ("keras.layers.Dropout", "StatelessRandomUniformV2"),
        ("keras.layers.StringLookup", "LookupTableFindV2"),
        ("keras.losses.SparseCategoricalCrossentropy", "SparseSoftmaxCrossEntropyWithLogits"),
        ("keras.metrics.AUC", "AssignVariableOp"),
        ("keras.optimizers.SGD", "ResourceScatterSub"),
        ("keras.ops.svd", "Svd"),
        ("keras.random.gamma", "RandomGammaGrad"),
    ],
)
def test_what_is_known_of_steps_is_found(name: str, operation_type: str) -> None:
    assert operation_type in keras_census().types[name]


def test_bodies_of_loops_and_of_their_derivatives_are_entered() -> None:
    def loop(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.cos(x)), (0, x))[1]

    assert {"Cos", "Sin"} <= traced_types(loop, example(VECTORS))
    assert "Sin" not in traced_types(loop, example(VECTORS), gradients=False)


def test_bodies_of_functions_in_branches_are_entered() -> None:
    inner = tf.function(tf.math.lgamma)

    def branch(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: inner(x), lambda: x)

    assert {"Lgamma", "Digamma"} <= traced_types(branch, example(VECTORS))
