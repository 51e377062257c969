"""Strings, hashes and look-ups: in replicas they give what they give whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from rule_replicas import assert_rule
from rule_sweep import SIZES, decision, raw, sweep
from step_replicas import assert_replicas, gathered

from tnt_keras.partition.rules.registry import Decision
from tnt_keras.partition.value import HANDLE, PARTIAL, REPLICATED, Placement, Shape, Sharded

STRINGS: dict[str, dict[str, Any]] = {
    "StringLower": {},
    "StringUpper": {},
    "StringStrip": {},
    "StringLength": {},
    "StaticRegexReplace": {"pattern": "[0-4]", "rewrite": "<>"},
    "StaticRegexFullMatch": {"pattern": " [A-C].*"},
    "UnicodeTranscode": {"input_encoding": "UTF-8", "output_encoding": "UTF-16-BE"},
    "StringToHashBucket": {"num_buckets": 7},
    "StringToHashBucketFast": {"num_buckets": 7},
    "StringToHashBucketStrong": {"num_buckets": 7, "key": [3, 5]},
    "EncodeBase64": {},
}
OF_OTHERS: dict[str, Callable[..., Any]] = {
    "AsString": lambda *shape: numbers(*shape),
    "UnicodeScript": lambda *shape: 65 + numbers(*shape),
    "StringToNumber": lambda *shape: numbers(*shape).astype(str).astype(object),
    "DecodeBase64": lambda *shape: np.asarray(tf.io.encode_base64(strings(*shape))),
}
WITH_OPERANDS = ["RegexReplace", "RegexFullMatch", "StringJoin", "Substr", "Fingerprint"]
TABLE = ["LookupTableFindV2"]
TYPES = {*STRINGS, *OF_OTHERS, *WITH_OPERANDS, *TABLE}


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def strings(*shape: int) -> np.ndarray[Any, Any]:
    """All are different, and so are their lengths nearly."""
    words = [f" {'ABCDE'[i % 5]}{i}{'x' * (i % 4)} " for i in range(int(np.prod(shape)))]
    return np.array(words, object).reshape(shape)


@pytest.mark.parametrize("name", [*STRINGS, *OF_OTHERS])
def test_each_string_is_worked_on_by_itself(name: str) -> None:
    make = raw(name, **STRINGS.get(name, {}))
    array: Callable[..., Any] = OF_OTHERS.get(name, strings)
    for num_rows, replicas in SIZES:
        found = sweep(make, [array(2 * num_rows, num_rows)], num_rows, replicas)
        assert all(d for placements, d in found if placements != (PARTIAL,))


@pytest.mark.parametrize("name", ["RegexReplace", "RegexFullMatch"])
def test_a_pattern_is_no_row(name: str) -> None:
    operands = [np.array(t, object) for t in ("[0-4]x*", "<>")]
    inputs = [strings(5, 5), *operands[: 2 if name == "RegexReplace" else 1]]
    for _, found in sweep(raw(name), inputs, 5, 3, replicated=range(1, len(inputs))):
        assert found is not None
        assert found.inputs[1:] == (REPLICATED,) * (len(inputs) - 1)


def test_a_fingerprint_is_that_of_a_whole_element_of_the_batch() -> None:
    for num_rows, replicas in SIZES:
        inputs = [numbers(num_rows, num_rows), np.array("farmhash64", object)]
        found = sweep(raw("Fingerprint"), inputs, num_rows, replicas, replicated=[1])
        assert all((d is not None) == (p[0] == Sharded(0)) for p, d in found if num_rows > 1)


def test_strings_are_joined_with_those_at_their_place_and_with_scalars() -> None:
    def join(*inputs: Any) -> Any:
        return tf.raw_ops.StringJoin(inputs=inputs, separator="-")

    inputs = [strings(6, 3), np.array("y", object), strings(6, 3)]
    for placements, found in sweep(join, inputs, 3, 2, replicated=[1]):
        rows = next(p for p in placements if isinstance(p, Sharded))
        assert found is not None
        assert found.inputs == (rows, REPLICATED, rows)


def test_parts_of_strings_begin_where_is_said_for_all_or_for_each() -> None:
    whole, positions, length = strings(6, 3), numbers(6, 3) % 3, np.array(2, np.int32)
    for begin in [positions, np.array(1, np.int32)]:
        inputs = [whole, begin, np.broadcast_to(length, np.shape(begin))]
        found = sweep(raw("Substr"), inputs, 3, 2)
        assert all(d for p, d in found if Sharded in map(type, p))


def test_positions_that_are_broadcast_are_gathered() -> None:
    begin = np.ones([6, 1], np.int32)
    placements: list[Placement] = [Sharded(0), REPLICATED, REPLICATED]
    assert_rule(raw("Substr"), [strings(6, 3), begin, begin], placements, 6, 2, is_ruled=False)


def test_joined_strings_of_shapes_that_are_not_known_are_gathered() -> None:
    assert decision("StringJoin", [(None, Sharded(0)), ((8,), REPLICATED)], [None]) is None
    merged: list[tuple[Shape, Placement]] = [((None,), Sharded(0, 1, None)), ((None,), REPLICATED)]
    assert decision("StringJoin", merged, [(None,)]) is None


def look_up(keys: Shape, rows: Placement, default: Shape, values: Shape) -> Decision | None:
    inputs = [((), HANDLE), (keys, rows), (default, REPLICATED)]
    return decision("LookupTableFindV2", inputs, [values], dtype=tf.int64)


@pytest.mark.parametrize("rows", [Sharded(0, 2, 1), Sharded(1), Sharded(1, 1, None)])
def test_keys_are_looked_up_where_they_are(rows: Sharded) -> None:
    found = look_up((8, None), rows, (), (8, None))
    assert found is not None
    assert found.inputs == (HANDLE, rows, REPLICATED)
    assert found.outputs == (rows,)


def test_values_that_are_vectors_follow_the_axes_of_the_keys() -> None:
    assert look_up((8, 4), Sharded(1), (3,), (8, 4, 3)) is not None


def test_rows_within_a_key_are_gathered() -> None:
    assert look_up((8, 4), Sharded(0), (), (8,)) is not None
    assert look_up((8, 4), Sharded(1), (), (8,)) is None
    assert look_up((4,), Sharded(0), (), ()) is None
    assert look_up((4, 4), Sharded(1), (4,), (4, 4)) is None


def test_values_of_unknown_shape_are_looked_up_by_all() -> None:
    assert look_up((8, 4), Sharded(0), (), None) is None


def test_no_words_are_gathered_to_be_looked_up_in_a_step() -> None:
    layer = keras.layers.StringLookup(vocabulary=["a", "b", "c"], num_oov_indices=2)

    def total(words: Any) -> Any:
        return tf.reduce_sum(tf.gather([0.5, 1.0, 2.0, 4.0, 8.0], layer.call(words)))

    words = np.array([["a", "c"], ["b", "x"], ["y", "a"], ["c", "z"], ["b", "b"]])
    assert gathered(assert_replicas(total, [words], replicas=[1, 2, 3])) == []
