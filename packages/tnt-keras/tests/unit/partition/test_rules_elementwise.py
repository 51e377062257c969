"""Operations element by element: rows lie where the inputs' do, and some totals stay totals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import test_rules_text
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_replicas import assert_rule
from rule_sweep import SIZES, decision, placements_of, raw, sweep, types_of

from tnt_keras.partition.rules import elementwise
from tnt_keras.partition.rules.registry import entry_of
from tnt_keras.partition.value import PARTIAL, REPLICATED, Partial, Placement, Shape, Sharded

QUANTIZED_BY_CHANNEL = {
    f"FakeQuantWithMinMaxVarsPerChannel{derivative}" for derivative in ("", "Gradient")
}
"""They are tested with images."""
EXAMPLES = settings().max_examples * 4 // 10
UNARY = {
    "f": """
        Abs Acos Acosh Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1
        BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Bucketize Cast Ceil CheckNumerics
        CheckNumericsV2 Cos Cosh Dawsn DebugGradientIdentity Digamma Elu Erf Erfc Erfinv Exp Expint
        Expm1 FakeQuantWithMinMaxArgs Floor FresnelCos FresnelSin Identity Inv IsFinite IsInf IsNan
        LeakyRelu Lgamma Log Log1p Ndtri Neg OnesLike PreventGradient Reciprocal Relu Relu6 Rint
        Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus Softsign Spence Sqrt Square
        StopGradient Tan Tanh ZerosLike""",
    "c": "Angle ComplexAbs Conj Imag Real",
    "i": "Bitcast Invert PopulationCount",
    "b": "LogicalNot",
}
BROADCASTING = {
    "f": """
        Add AddV2 Atan2 Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Igamma IgammaGradA
        Igammac Less LessEqual Maximum Minimum Mod Mul MulNoNan NextAfter NotEqual Polygamma Pow
        RandomGammaGrad RealDiv SquaredDifference Sub Xdivy Xlog1py Xlogy Zeta""",
    "i": "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift TruncateDiv TruncateMod",
    "b": "LogicalAnd LogicalOr",
}
OF_ONE_SHAPE = """
    ApproximateEqual EluGrad FakeQuantWithMinMaxArgsGradient InvGrad LeakyReluGrad ReciprocalGrad
    Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad
    TanhGrad"""
OTHERS = """
    AddN Betainc BiasAdd BiasAddV1 ClipByValue Complex EnsureShape
    FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient IdentityN Select SelectV2"""
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Bitcast": {"type": tf.float32},
    "Bucketize": {"boundaries": [0.3, 0.6]},
    "Cast": {"DstT": tf.float64},
    "CheckNumerics": {"message": ""},
    "CheckNumericsV2": {"message": ""},
}
UNARY_CASES = [(name, kind) for kind, names in UNARY.items() for name in names.split()]
BINARY_CASES = [(name, kind) for kind, names in BROADCASTING.items() for name in names.split()]


def array(kind: str, *shape: int) -> Any:
    random = np.random.default_rng(len(shape) + sum(shape))
    floats = random.uniform(0.1, 0.9, shape).astype(np.float32)
    match kind:
        case "c":
            return (floats + 1j * floats[..., ::-1]).astype(np.complex64)
        case "i":
            return random.integers(1, 5, shape, np.int32)
        case "b":
            return floats > 0.5
        case _:
            return floats


def test_each_operation_with_a_rule_is_tested() -> None:
    tested = {name for name, _ in UNARY_CASES + BINARY_CASES} | {
        *OF_ONE_SHAPE.split(),
        *OTHERS.split(),
    }
    assert types_of(elementwise) == tested | test_rules_text.TYPES | QUANTIZED_BY_CHANNEL


@pytest.mark.parametrize(("name", "kind"), UNARY_CASES)
def test_a_function_of_one_element_takes_rows_along_any_axis(name: str, kind: str) -> None:
    whole = array(kind, 6, 3)
    make = raw(name, **ATTRIBUTES.get(name, {}))
    for rows in placements_of(whole, 3):
        if isinstance(rows, Sharded):
            found = assert_rule(make, [whole], [rows], 3, 2)
            assert found is not None
            assert found.outputs == (rows,)


@pytest.mark.parametrize(("name", "kind"), BINARY_CASES)
def test_a_function_of_two_elements_is_broadcast(name: str, kind: str) -> None:
    sweep(raw(name), [array(kind, 3, 3), array(kind, 3)], 3, 2)
    sweep(raw(name), [array(kind, 3, 1), array(kind, 1, 3)], 3, 2)


@pytest.mark.parametrize("name", OF_ONE_SHAPE.split())
def test_a_function_of_two_elements_cuts_both(name: str) -> None:
    found = sweep(raw(name), [array("f", 3, 6), array("f", 3, 6)], 3, 2)
    assert all(made for placed, made in found if any(isinstance(p, Sharded) for p in placed))


@st.composite
def broadcast_shapes(draw: st.DrawFn, num_rows: int, count: int) -> list[tuple[int, ...]]:
    """Shapes that are broadcast with each other."""
    rank = draw(st.integers(1, 3))
    full = [draw(st.sampled_from([1, 2, num_rows, 2 * num_rows])) for _ in range(rank)]
    shapes = []
    for _ in range(count):
        left = draw(st.integers(0, rank - 1))
        shapes.append(tuple(draw(st.sampled_from([1, size])) for size in full[left:]))
    return shapes


@settings(max_examples=EXAMPLES)
@given(data=st.data(), size=st.sampled_from(SIZES))
@pytest.mark.parametrize(("name", "count"), [("Sub", 2), ("Mul", 2), ("SelectV2", 3)])
def test_any_shapes_are_broadcast(
    name: str, count: int, data: st.DataObject, size: tuple[int, int]
) -> None:
    num_rows, replicas = size
    shapes = data.draw(broadcast_shapes(num_rows, count))
    arrays = [array("f", *shape) for shape in shapes]
    if name == "SelectV2":
        arrays[0] = arrays[0] > 0.5
    placements = [data.draw(st.sampled_from(placements_of(a, num_rows))) for a in arrays]
    assert_rule(raw(name), arrays, placements, num_rows, replicas, is_ruled=None)


@pytest.mark.parametrize(("layout", "value"), [("NHWC", (6, 3)), ("NCHW", (6, 3, 2, 2))])
def test_a_bias_is_added_along_the_axis_of_the_channels(layout: str, value: Any) -> None:
    make = raw("BiasAdd", data_format=layout)
    found = sweep(make, [array("f", *value), array("f", 3)], 3, 2)
    assert (Sharded(0, 2), REPLICATED) in [placed for placed, made in found if made]


def test_a_bias_of_the_old_form_is_added_along_the_last_axis() -> None:
    sweep(raw("BiasAddV1"), [array("f", 3, 3), array("f", 3)], 3, 2)


@pytest.mark.parametrize("condition", [(), (3,), (3, 3)])
def test_a_condition_may_be_a_vector_for_the_first_axis(condition: tuple[int, ...]) -> None:
    found = sweep(raw("Select"), [array("b", *condition), array("f", 3, 3), array("f", 3, 3)], 3, 2)
    assert all(made for placed, made in found if placed[1:] == (Sharded(0), Sharded(0)))


def test_conditions_are_broadcast() -> None:
    sweep(raw("SelectV2"), [array("b", 3, 1), array("f", 3, 3), array("f", 3)], 3, 2)


@pytest.mark.parametrize("limits", [(), (3, 3)])
def test_limits_are_broadcast(limits: tuple[int, ...]) -> None:
    sweep(raw("ClipByValue"), [array("f", 3, 3), array("f", *limits), array("f", *limits)], 3, 2)


def test_complex_numbers_are_made_of_two_real_ones() -> None:
    sweep(raw("Complex"), [array("f", 3, 6), array("f", 6)], 3, 2)


def test_functions_of_three_elements() -> None:
    sweep(raw("Betainc"), [array("f", 3, 3)] * 3, 3, 2)


def test_ranges_of_quantization_are_for_all_elements() -> None:
    value, low, high = array("f", 3, 3), np.float32(0.2), np.float32(0.7)
    found = sweep(raw("FakeQuantWithMinMaxVars"), [value, low, high], 3, 2, replicated=[1, 2])
    found += sweep(
        raw("FakeQuantWithMinMaxVarsGradient"), [value, value, low, high], 3, 2, replicated=[2, 3]
    )
    assert all(made for placed, made in found if any(isinstance(p, Sharded) for p in placed))


def test_sums_of_many_are_cut_alike() -> None:
    found = sweep(add_n, [array("f", 3, 3)] * 3, 3, 2)
    assert all(made for placed, made in found if Sharded(0) in placed)


def add_n(*values: Any) -> Any:
    return tf.raw_ops.AddN(inputs=list(values))


def test_values_are_handed_on_as_they_are() -> None:
    value = array("f", 3, 3)
    placements: list[Placement] = [Sharded(1), PARTIAL, REPLICATED]
    found = assert_rule(
        lambda *x: tf.raw_ops.IdentityN(input=list(x)), [value] * 3, placements, 3, 2
    )
    assert found is not None
    assert found.outputs == tuple(placements)


@pytest.mark.parametrize("shape", [(3, 6), (None, 6)])
def test_the_shape_is_ensured_beside_the_rows(shape: Any) -> None:
    found = assert_rule(raw("EnsureShape", shape=shape), [array("f", 3, 6)], [Sharded(0)], 3, 2)
    assert found is not None
    assert found.attributes["shape"].as_list() == [None, 6]


def test_bits_are_read_anew_only_where_the_number_of_axes_stays() -> None:
    halves = array("f", 3, 2).astype(np.float16)
    assert_rule(raw("Bitcast", type=tf.uint16), [halves], [Sharded(0)], 3, 2)
    assert_rule(raw("Bitcast", type=tf.uint8), [halves], [Sharded(0)], 3, 2, is_ruled=False)
    assert_rule(raw("Bitcast", type=tf.float32), [halves], [Sharded(0)], 3, 2, is_ruled=False)


def test_pairs_of_rows_stay_rows_of_the_first() -> None:
    """[N, 1] against [1, N], both with rows: one is gathered, and the result is not."""
    first, second = array("f", 4, 1), array("f", 1, 4)
    found = assert_rule(tf.subtract, [first, second], [Sharded(0), Sharded(1)], 4, 3)
    assert found is not None
    assert (found.inputs, found.outputs) == ((Sharded(0), REPLICATED), (Sharded(0),))


def test_the_smaller_value_is_gathered() -> None:
    small, large = array("f", 4, 1), array("f", 4, 4)
    found = assert_rule(tf.subtract, [small, large], [Sharded(0), Sharded(1)], 4, 3)
    assert found is not None
    assert (found.inputs, found.outputs) == ((REPLICATED, Sharded(1)), (Sharded(1),))


def test_a_vector_belongs_to_the_last_axis_though_it_has_as_many_elements_as_rows() -> None:
    found = assert_rule(
        tf.multiply, [array("f", 4, 4), array("f", 4)], [Sharded(0), REPLICATED], 4, 2
    )
    assert found is not None
    assert found.inputs == (Sharded(0), REPLICATED)


def test_comparisons_of_shapes_that_do_not_fit_are_not_cut() -> None:
    make = raw("Equal", incompatible_shape_error=False)
    arrays = [array("f", 4, 3), array("f", 4, 2)]
    assert_rule(make, arrays, [Sharded(0), Sharded(0)], 4, 2, is_ruled=False)


# Totals


@pytest.mark.parametrize("name", ["Neg", "Identity", "Snapshot", "StopGradient", "PreventGradient"])
def test_linear_functions_leave_totals_what_they_are(name: str) -> None:
    found = assert_rule(raw(name), [array("f", 3)], [PARTIAL], 3, 2)
    assert found is not None
    assert found.outputs == (PARTIAL,)


@pytest.mark.parametrize("name", ["Abs", "Sqrt", "Relu", "Sign", "IsFinite", "CheckNumerics"])
def test_other_functions_are_of_the_total_itself(name: str) -> None:
    make = raw(name, **ATTRIBUTES.get(name, {}))
    assert_rule(make, [array("f", 3)], [PARTIAL], 3, 2, is_ruled=False)


@pytest.mark.parametrize("name", ["ZerosLike", "OnesLike"])
def test_what_is_only_like_a_total_needs_no_total(name: str) -> None:
    found = assert_rule(raw(name), [array("f", 3)], [PARTIAL], 3, 2)
    assert found is not None
    assert (found.inputs, found.outputs) == ((PARTIAL,), (REPLICATED,))


@pytest.mark.parametrize(
    ("source", "target", "stays"),
    [
        (tf.bfloat16, tf.float32, True),
        (tf.float32, tf.float64, True),
        (tf.complex64, tf.complex128, True),
        (tf.float16, tf.float32, False),
        (tf.float32, tf.float16, False),
        (tf.float32, tf.bfloat16, False),
        (tf.float32, tf.int32, False),
        (tf.float64, tf.float32, False),
        (tf.int32, tf.float32, False),
        (tf.int32, tf.int64, False),
    ],
)
def test_totals_are_cast_where_none_overflows_that_would_not(
    source: tf.DType, target: tf.DType, stays: bool
) -> None:
    whole = np.asarray([1, 2, 3], source.as_numpy_dtype)
    assert_rule(raw("Cast", DstT=target), [whole], [PARTIAL], 3, 2, is_ruled=stays)


@pytest.mark.parametrize("make", [tf.add, tf.subtract, lambda x, y: add_n(x, y)])
def test_sums_of_totals_are_totals(make: Any) -> None:
    found = assert_rule(make, [array("f", 3), array("f", 3)], [PARTIAL, PARTIAL], 3, 2)
    assert found is not None
    assert found.outputs == (PARTIAL,)


def test_totals_of_different_shapes_are_formed_before_they_are_added() -> None:
    arrays = [array("f", 3), array("f")]
    assert_rule(tf.add, arrays, [PARTIAL, PARTIAL], 3, 2, is_ruled=False)


def test_a_total_that_rows_are_added_to_is_formed() -> None:
    found = assert_rule(tf.add, [array("f", 3, 3), array("f", 3)], [Sharded(0), PARTIAL], 3, 2)
    assert found is not None
    assert (found.inputs, found.outputs) == ((Sharded(0), REPLICATED), (Sharded(0),))


@pytest.mark.parametrize("factor", [np.float32(0.5), np.asarray([1, 2, 3], np.float32)])
def test_a_total_times_or_by_known_numbers_is_a_total(factor: Any) -> None:
    total = array("f", 3)
    known: dict[str, Any] = {"constants": [False, True]}
    for make in (raw("Mul"), raw("RealDiv")):
        found = assert_rule(make, [total, factor], [PARTIAL, REPLICATED], 3, 2, **known)
        assert found is not None
        assert found.outputs == (PARTIAL,)
    known = {"constants": [True, False]}
    assert_rule(raw("Mul"), [factor, total], [REPLICATED, PARTIAL], 3, 2, **known)
    assert_rule(
        raw("RealDiv"), [factor, total], [REPLICATED, PARTIAL], 3, 2, is_ruled=False, **known
    )


@pytest.mark.parametrize(
    ("name", "number"),
    [("Mul", np.inf), ("Mul", np.nan), ("RealDiv", 0), ("RealDiv", np.inf), ("DivNoNan", 0)],
)
def test_a_total_is_formed_before_it_meets_what_is_not_finite(name: str, number: float) -> None:
    """Partial sums that are zero would become NaN, and so would the total."""
    arrays = [array("f", 3), np.float32(number)]
    assert_rule(
        raw(name), arrays, [PARTIAL, REPLICATED], 3, 2, is_ruled=False, constants=[False, True]
    )


@pytest.mark.parametrize("name", ["Mul", "RealDiv", "MulNoNan"])
def test_a_total_is_formed_before_it_meets_an_unknown_number(name: str) -> None:
    arrays = [array("f", 3), np.float32(2)]
    assert_rule(
        raw(name), arrays, [PARTIAL, REPLICATED], 3, 2, is_ruled=False, constants=[False, False]
    )


def test_a_total_is_formed_before_it_is_spread() -> None:
    arrays = [array("f"), array("f", 6)]
    assert_rule(
        raw("Mul"), arrays, [PARTIAL, REPLICATED], 3, 2, is_ruled=False, constants=[False, True]
    )


def test_products_of_totals_are_of_formed_ones() -> None:
    assert_rule(tf.multiply, [array("f", 3)] * 2, [PARTIAL, PARTIAL], 3, 2, is_ruled=False)


def test_only_sums_are_totals_that_functions_take() -> None:
    assert_rule(tf.negative, [array("f", 3)], [Partial("max")], 3, 2, is_ruled=False)


# Unknown sizes

ROWS = Sharded(0)


@pytest.mark.parametrize(
    ("first", "second", "output"),
    [
        ((4, None, 2), (2,), (4, None, 2)),
        ((4, None, 2), (None, 2), (4, None, 2)),
        ((4, None, 2), (1, None, 1), (4, None, 2)),
        ((4, None, 2), (4, 1, 1), (4, None, 2)),
        ((4, None), (), (4, None)),
    ],
)
def test_other_axes_may_be_of_unknown_size(first: Any, second: Any, output: Any) -> None:
    found = decision("AddV2", [(first, ROWS), (second, REPLICATED)], [output])
    assert found is not None
    assert found.outputs == (ROWS,)
    is_cut = len(second) == 3 and second[0] == 4
    assert found.inputs == (ROWS, ROWS if is_cut else REPLICATED)


def test_an_axis_of_unknown_size_is_not_cut_as_the_rows() -> None:
    """It may be of size one."""
    inputs: list[tuple[Shape, Placement]] = [((4, 2), ROWS), ((None, 2), REPLICATED)]
    assert decision("AddV2", inputs, [(4, 2)]) is None


def test_rows_in_blocks_of_unknown_size_fit_each_other() -> None:
    rows = Sharded(0, 1, None)
    found = decision("AddV2", [((None, 2), rows), ((None, 2), rows)], [(None, 2)])
    assert found is not None
    assert (found.inputs, found.outputs) == ((rows, rows), (rows,))
    other = Sharded(0, 2, None)
    assert decision("AddV2", [((None, 2), rows), ((None, 2), other)], [(None, 2)]) is None


def test_the_number_of_axes_must_be_known_but_for_functions_of_one_element() -> None:
    assert decision("AddV2", [(None, ROWS), ((2,), REPLICATED)], [None]) is None
    assert decision("Equal", [((4, None), ROWS), ((4, None), ROWS)], [None]) is None
    found = decision("Tanh", [(None, ROWS)], [None])
    assert found is not None
    assert found.outputs == (ROWS,)


# Rows of replicated values


def test_what_spreads_aligns_axes_from_the_last() -> None:
    spreading = {
        n for n in types_of(elementwise) if (e := entry_of(n)) is not None and e.is_pointwise
    }
    for name in ["Mul", "AddV2", "RealDiv", "Cast", "SelectV2", "Exp", "ZerosLike"]:
        assert name in spreading
    assert not spreading & {"BiasAdd", "BiasAddV1", "Select", "Bitcast", "EnsureShape"}
