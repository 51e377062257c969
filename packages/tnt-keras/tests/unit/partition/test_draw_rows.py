"""The rows of a replica are, bit for bit, those of TensorFlow's own draw of the whole batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tnt_keras.partition import random_ops as module
from tnt_keras.partition.random_ops import DTYPES_OF_DRAWS, draw_rows

PHILOX, THREEFRY, AUTO = (
    tf.random.Algorithm[name].value for name in ("PHILOX", "THREEFRY", "AUTO_SELECT")
)
KINDS = [
    (op_type, dtype)
    for op_type, dtypes in DTYPES_OF_DRAWS.items()
    for dtype in sorted(dtypes, key=lambda dtype: dtype.name)
]
EVERY_KIND = pytest.mark.parametrize(
    ("op_type", "dtype"), KINDS, ids=lambda value: getattr(value, "name", value)
)
pytestmark = pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="what GPUs draw is drawn whole"
)
WRAPS_SOON = [2**64 - 2, 2**64 - 1]  # a counter that passes 2**128 after two groups
INTEGERS = "StatelessRandomUniformIntV2"


@dataclasses.dataclass(frozen=True)
class Draw:
    """A draw of TensorFlow; the batch lies in one axis as `(outer, num_rows, inner)`."""

    op_type: str
    dtype: tf.DType
    before: tuple[int, ...] = ()
    outer: int = 1
    num_rows: int = 1
    inner: int = 1
    after: tuple[int, ...] = ()
    key: int = 0x123456789ABCDEF
    counter: Sequence[int] = (7, 5)
    algorithm: int = PHILOX
    bounds: tuple[int, int] | None = None

    @property
    def lead(self) -> int:
        return math.prod(self.before) * self.outer

    def shape(self, num_rows: int) -> list[int]:
        return [*self.before, self.outer * num_rows * self.inner, *self.after]

    def inputs(self) -> list[Any]:
        bounds = self.bounds or ((-5, 1000) if self.op_type == INTEGERS else ())
        return [
            tf.constant(self.shape(self.num_rows), tf.int32),
            tf.constant([self.key], tf.uint64),
            tf.constant(self.counter, tf.uint64),
            tf.constant(self.algorithm, tf.int32),
            *(tf.constant(bound, self.dtype) for bound in bounds),
        ]

    def whole(self) -> tf.Tensor:
        return whole(self.op_type, self.inputs(), self.dtype)

    def expected(self, replica: int, replicas: int) -> np.ndarray:
        rows = np.reshape(self.whole(), (self.lead, self.num_rows, -1 if self.size else 0))
        return rows[:, replica::replicas]

    def rows(self, replica: int, replicas: int) -> tf.Tensor:
        taken = len(range(replica, self.num_rows, replicas))
        result = draw_rows(
            self.op_type,
            self.inputs(),
            self.dtype,
            self.shape(taken),
            lead=self.lead,
            rows=self.num_rows,
            first=replica,
            step=replicas,
        )
        assert result is not None
        assert result.dtype == self.dtype
        assert result.shape == self.shape(taken)
        return result

    @property
    def size(self) -> int:
        return math.prod(self.shape(self.num_rows))


def whole(op_type: str, inputs: Sequence[Any], dtype: tf.DType) -> tf.Tensor:
    """TensorFlow's own draw, on the CPU."""
    names = ("shape", "key", "counter", "alg", "minval", "maxval")
    kwargs = dict(zip(names, inputs, strict=False))
    if op_type != INTEGERS:
        kwargs["dtype"] = dtype
    with tf.device("CPU"):
        return getattr(tf.raw_ops, op_type)(**kwargs)


def assert_same_bits(actual: Any, expected: Any) -> None:
    assert np.asarray(actual).tobytes() == np.asarray(expected).tobytes()


def assert_replicas_are_cut_from_the_draw(draw: Draw, replicas: int) -> None:
    for replica in range(replicas):
        assert_same_bits(draw.rows(replica, replicas), draw.expected(replica, replicas))


NUMBERS_OF_64_BITS = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(2**32 - 9, 2**32), st.integers(2**64 - 9, 2**64 - 1)
)
DIMENSIONS = st.lists(st.integers(0, 5), max_size=2).map(tuple)
SMALL = st.integers(1, 3)


@st.composite
def draws(sample: Callable[[Any], Any], op_type: str, dtype: tf.DType) -> Draw:
    extremes = st.sampled_from([dtype.min, dtype.min + 1, -1, 0, 1, dtype.max - 1, dtype.max])
    bounds = st.lists(extremes, min_size=2, max_size=2, unique=True).map(sorted).map(tuple)
    return Draw(
        op_type,
        dtype,
        sample(DIMENSIONS),
        sample(SMALL),
        sample(st.integers(0, 40)),
        sample(SMALL),
        sample(DIMENSIONS),
        sample(NUMBERS_OF_64_BITS),
        sample(st.tuples(NUMBERS_OF_64_BITS, NUMBERS_OF_64_BITS)),
        sample(st.sampled_from([PHILOX, AUTO])),
        sample(bounds) if op_type == INTEGERS else None,
    )


@EVERY_KIND
@given(data=st.data())
def test_rows_of_any_shape_key_and_counter_are_those_of_the_draw(
    op_type: str, dtype: tf.DType, data: st.DataObject
) -> None:
    draw = data.draw(draws(op_type, dtype))
    assert_replicas_are_cut_from_the_draw(draw, data.draw(st.integers(1, 5)))


@EVERY_KIND
def test_many_rows_are_drawn_in_several_threads(
    op_type: str, dtype: tf.DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_max_threads", lambda: 3)
    draw = Draw(op_type, dtype, before=(2,), num_rows=20_001, after=(7,))
    assert_replicas_are_cut_from_the_draw(draw, 2)  # threads begin inside of rows


@EVERY_KIND
@pytest.mark.parametrize("counter", [WRAPS_SOON, [2**64 - 1, 8], [2**32 - 1, 2**32 - 1]])
def test_counters_pass_their_largest_value_as_those_of_tensorflow_do(
    op_type: str, dtype: tf.DType, counter: Sequence[int]
) -> None:
    assert_replicas_are_cut_from_the_draw(
        Draw(op_type, dtype, num_rows=33, after=(5,), key=2**64 - 1, counter=counter), 3
    )


def test_halves_below_the_smallest_normal_one_are_rounded_as_tensorflow_does() -> None:
    draw = Draw("StatelessRandomNormalV2", tf.float16, num_rows=40_000, after=(25,))
    expected = draw.expected(1, 2)
    assert np.count_nonzero(abs(expected.astype(np.float64)) < 2.0**-14) > 10
    assert_same_bits(draw.rows(1, 2), expected)


def first_numbers(op_type: str, dtype: tf.DType, counter: int) -> np.ndarray:
    """Assert that the first numbers of a draw are right; return them."""
    draw = Draw(op_type, dtype, num_rows=8, key=1, counter=(counter, 0))
    numbers = draw.expected(0, 1)
    assert_same_bits(draw.rows(0, 1), numbers)
    return numbers.ravel()


# Such numbers are rare: one in 10**7 or less. The counters were found by trying.
@pytest.mark.parametrize("counter", [37499267, 48503036])
def test_a_half_that_is_rounded_up_to_the_smallest_normal_one_is_right(counter: int) -> None:
    smallest = 2.0**-14
    exact = abs(first_numbers("StatelessRandomNormalV2", tf.float32, counter))
    assert np.any((exact < smallest) & (exact > smallest - 2.0**-25))
    assert smallest in abs(first_numbers("StatelessRandomNormalV2", tf.float16, counter))


@pytest.mark.parametrize("counter", [5215901, 13189237])
def test_a_number_at_the_very_threshold_is_not_taken(counter: int) -> None:
    assert 2 in abs(first_numbers("StatelessRandomNormalV2", tf.float32, counter))
    assert 2 not in abs(first_numbers("StatelessTruncatedNormalV2", tf.float32, counter))


@pytest.mark.parametrize(
    ("dtype", "counter"),
    [(tf.float32, 4194105), (tf.float32, 7670617), (tf.float64, 29480861), (tf.float64, 36614639)],
)
def test_the_logarithm_of_a_very_small_fraction_is_right(dtype: tf.DType, counter: int) -> None:
    assert np.any(first_numbers("StatelessRandomUniformV2", dtype, counter)[::2] < 1e-7)
    first_numbers("StatelessRandomNormalV2", dtype, counter)


@EVERY_KIND
def test_a_replica_without_rows_gets_none(op_type: str, dtype: tf.DType) -> None:
    assert Draw(op_type, dtype, num_rows=2, after=(3,)).rows(4, 5).shape == (0, 3)


def test_every_draw_of_tensorflow_on_cpus_is_known() -> None:
    known = {(op_type, dtype) for op_type, dtypes in DTYPES_OF_DRAWS.items() for dtype in dtypes}
    dtypes = [dtype for _, dtype in KINDS]
    drawn = set()
    for op_type in DTYPES_OF_DRAWS:
        for dtype in dtypes:
            try:
                Draw(op_type, dtype, bounds=(0, 9) if op_type == INTEGERS else None).whole()
            except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, TypeError):
                continue
            drawn.add((op_type, dtype))
    assert drawn == known


@pytest.mark.parametrize(
    ("op_type", "dtype", "algorithm"),
    [
        ("StatelessRandomUniformV2", tf.float32, THREEFRY),
        ("StatelessRandomUniformV2", tf.float32, 9),
        ("StatelessRandomUniformV2", tf.int32, PHILOX),
        (INTEGERS, tf.uint32, PHILOX),
        ("StatelessRandomGammaV3", tf.float32, PHILOX),
    ],
)
def test_what_is_not_known_is_left_to_the_caller(
    op_type: str, dtype: tf.DType, algorithm: int
) -> None:
    inputs = Draw(op_type, dtype, algorithm=algorithm, bounds=(0, 9)).inputs()
    assert draw_rows(op_type, inputs, dtype, [1], lead=1, rows=1, first=0, step=1) is None


def test_what_a_gpu_may_draw_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [tf.config.LogicalDevice(f"/device:{name}:0", name) for name in ("CPU", "GPU")]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda: devices)
    draw = Draw("StatelessRandomUniformV2", tf.float32)
    inputs = draw.inputs()
    assert draw_rows(draw.op_type, inputs, draw.dtype, [1], lead=1, rows=1, first=0, step=1) is None


def test_an_algorithm_that_is_chosen_when_the_graph_runs_is_left_to_the_caller() -> None:
    draw = Draw("StatelessRandomUniformV2", tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def is_left(algorithm: tf.Tensor) -> bool:
        inputs = [*draw.inputs()[:3], algorithm]
        rows = draw_rows(draw.op_type, inputs, draw.dtype, [1], lead=1, rows=1, first=0, step=1)
        return rows is None

    assert is_left(PHILOX)


@pytest.mark.parametrize("op_type", ["StatelessRandomNormalV2", "StatelessTruncatedNormalV2"])
def test_a_graph_draws_rows_whose_number_and_key_it_learns_when_it_runs(op_type: str) -> None:
    @tf.function(
        input_signature=[tf.TensorSpec([], tf.int32), tf.TensorSpec([1], tf.uint64)],
        autograph=False,
    )
    def rows(num_rows: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        inputs = [[num_rows, 3], key, tf.constant([1, 2], tf.uint64), tf.constant(PHILOX)]
        shape = tf.stack([num_rows // 2, 3])
        result = draw_rows(
            op_type, inputs, tf.float32, shape, lead=1, rows=num_rows, first=1, step=2
        )
        assert result.shape.as_list() == [None, 3]
        return result

    for num_rows, key in [(7, 1), (8, 2), (0, 3)]:
        draw = Draw(op_type, tf.float32, (), 1, num_rows, 1, (3,), key, (1, 2))
        assert_same_bits(rows(num_rows, tf.constant([key], tf.uint64)), draw.expected(1, 2))


def test_rows_of_constants_can_be_computed_when_the_graph_is_optimised() -> None:
    draw = Draw("StatelessRandomNormalV2", tf.float32, num_rows=9, after=(3,))
    function = tf.function(lambda: draw.rows(2, 4), autograph=False)
    for _ in range(2):
        assert_same_bits(function(), draw.expected(2, 4))


def test_bounds_in_the_wrong_order_are_the_error_of_tensorflow() -> None:
    draw = Draw(INTEGERS, tf.int32, bounds=(3, 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Need minval < maxval, got 3 >= 3"):
        draw.whole()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Need minval < maxval, got 3 >= 3"):
        draw.rows(0, 1)


def test_rows_that_do_not_divide_the_draw_are_an_error() -> None:
    draw = Draw("StatelessRandomUniformV2", tf.float32, num_rows=6, after=(5,))
    with pytest.raises(tf.errors.InvalidArgumentError, match="30 numbers are not 1 times 7 rows"):
        draw_rows(draw.op_type, draw.inputs(), draw.dtype, [4, 5], lead=1, rows=7, first=0, step=2)


def test_a_shape_that_does_not_hold_the_rows_is_an_error() -> None:
    draw = Draw("StatelessRandomUniformV2", tf.float32, num_rows=6, after=(5,))
    with pytest.raises(tf.errors.InvalidArgumentError, match="15"):
        draw_rows(draw.op_type, draw.inputs(), draw.dtype, [2, 5], lead=1, rows=6, first=0, step=2)
