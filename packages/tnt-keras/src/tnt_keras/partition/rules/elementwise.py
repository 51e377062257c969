"""Operations that work element by element, with broadcasting, on numbers and on text."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tnt_keras.partition.rules.labels import (
    Labels,
    along_one_label,
    batchwise,
    beside,
    broadcast_labels,
    cut_inputs,
)
from tnt_keras.partition.rules.registry import (
    Decision,
    Operation,
    as_they_are,
    is_partial_sum,
    rule,
)
from tnt_keras.partition.value import HANDLE, PARTIAL, REPLICATED, Sharded, Value, known


@rule("Neg Identity Snapshot StopGradient PreventGradient", linear=[0], is_pointwise=True)
@rule("DebugGradientIdentity", linear=[0], is_pointwise=True)
@rule(
    "Abs Acos Acosh Angle Asin Asinh Atan Atanh Bucketize Ceil CheckNumerics CheckNumericsV2 "
    "ComplexAbs Conj Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1 FakeQuantWithMinMaxArgs Floor "
    "Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Ndtri "
    "PopulationCount Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Square Tan Tanh "
    "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e "
    "BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin Spence",
    is_pointwise=True,
)
def _of_one(operation: Operation) -> Decision:
    """Leave the output of a function of one element where the input is."""
    return as_they_are(operation, operation.inputs[0].placement)


@rule(
    "Atan2 ClipByValue Complex Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less "
    "LessEqual LogicalAnd LogicalOr Maximum Minimum Mod MulNoNan NextAfter NotEqual Pow SelectV2 "
    "SquaredDifference TruncateDiv TruncateMod Xdivy Xlog1py Xlogy "
    "EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad "
    "SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad TanhGrad "
    "ApproximateEqual Betainc BitwiseAnd BitwiseOr BitwiseXor FakeQuantWithMinMaxArgsGradient "
    "FakeQuantWithMinMaxVars Igamma IgammaGradA Igammac LeftShift Polygamma RandomGammaGrad "
    "RightShift Zeta",
    is_pointwise=True,
)
def _with_broadcasting(operation: Operation) -> Decision | None:
    """Align axes from the last one."""
    shapes = operation.shapes
    rank = max(map(len, shapes))
    return along_one_label(operation, [broadcast_labels(s) for s in shapes], [range(-rank, 0)])


@rule("Add AddV2 AddN Sub", takes_partial_sums=None, is_pointwise=True)
def _sums(operation: Operation) -> Decision | None:
    """Leave a sum of totals of one shape a total."""
    values = operation.inputs
    if all(is_partial_sum(v) and v.shape == values[0].shape for v in values):
        return as_they_are(operation, PARTIAL)
    return _with_broadcasting(operation)


@rule("Mul", takes_partial_sums=[0, 1], is_pointwise=True)
def _product(operation: Operation) -> Decision | None:
    """Leave a total one when it is scaled by finite numbers."""
    first, second = operation.inputs
    if _scales(operation, first, second) or _scales(operation, second, first):
        return as_they_are(operation, PARTIAL)
    return _with_broadcasting(operation)


@rule("RealDiv", takes_partial_sums=[0], is_pointwise=True)
def _quotient(operation: Operation) -> Decision | None:
    """Do as for products."""
    total, divisor = operation.inputs
    if _scales(operation, total, divisor) and not np.any(divisor.constant == 0):
        return as_they_are(operation, PARTIAL)
    return _with_broadcasting(operation)


def _scales(operation: Operation, total: Value, factor: Value) -> bool:
    """Whether a total is combined with known finite numbers, and has as many elements after it."""
    return (
        is_partial_sum(total)
        and factor.placement == REPLICATED
        and factor.is_known
        and (factor.constant is None or bool(np.all(np.isfinite(factor.constant))))
        and operation.outputs[0].shape == total.shape
    )


# To types of the same or a larger range: no sum overflows here that would not overflow there.
_WIDER = {
    tf.bfloat16: (tf.float32, tf.float64),
    tf.float32: (tf.float64,),
    tf.complex64: (tf.complex128,),
}


@rule("Cast", takes_partial_sums=[0], is_pointwise=True)
def _cast(operation: Operation) -> Decision | None:
    """Leave a total one when it is cast to a wider type."""
    [value], [output] = operation.inputs, operation.outputs
    is_cast = not is_partial_sum(value) or output.dtype in _WIDER.get(value.dtype, ())
    return _of_one(operation) if is_cast else None


@rule("Bitcast")
def _bitcast(operation: Operation) -> Decision | None:
    """Refuse types of different sizes: they change the number of axes."""
    is_kept = operation.inputs[0].dtype.size == operation.outputs[0].dtype.size
    return _of_one(operation) if is_kept else None


@rule("ZerosLike OnesLike", takes_partial_sums=[0], is_pointwise=True)
def _filled_like(operation: Operation) -> Decision:
    """Form no totals: their values are not needed."""
    placement = operation.inputs[0].placement
    return as_they_are(operation, placement if isinstance(placement, Sharded) else REPLICATED)


rule("IdentityN", takes_partial_sums=None)(
    lambda operation: as_they_are(operation, *(value.placement for value in operation.inputs))
)


@rule("EnsureShape")
def _ensure_shape(operation: Operation) -> Decision | None:
    """Check the sizes of all axes but that of the rows."""
    rows, shape = operation.inputs[0].rows, known(operation.attributes["shape"])
    ensured = [None if axis == rows.axis else size for axis, size in enumerate(shape)]
    return as_they_are(operation, rows, attributes={"shape": tf.TensorShape(ensured)})


@rule("Select")
def _select(operation: Operation) -> Decision | None:
    """Take a condition of the same shape, a scalar, or a vector for the first axis."""
    rank = max(map(len, operation.shapes))
    return along_one_label(operation, [range(len(s)) for s in operation.shapes], [range(rank)])


@rule("BiasAdd BiasAddV1")
def _bias(operation: Operation) -> Decision | None:
    axes = range(len(operation.shapes[0]))
    return along_one_label(operation, [axes, [channel_axis(operation)]], [axes])


def channel_axis(operation: Operation) -> int:
    """Return the axis of the channels in an operation's first input."""
    is_second = operation.attributes.get("data_format", b"NHWC").startswith(b"NC")
    return 1 if is_second else operation.inputs[0].rank - 1


# Any axis but that of the channels, the last one.
rule("FakeQuantWithMinMaxVarsPerChannel")(lambda op: beside(op, [-1]))


@rule("FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient")
def _gradient_of_quantization(operation: Operation) -> Decision | None:
    """Sum the derivatives for the ends of the ranges, of which each channel may have its own."""
    axes: list[int | None] = [*range(len(operation.shapes[0]))]
    ends: Labels = []
    if "PerChannel" in operation.type:
        axes[-1], ends = None, [None]
    return along_one_label(operation, [axes, axes, ends, ends], [axes, PARTIAL, PARTIAL])


@rule("StringLower StringUpper StringStrip StringLength", is_pointwise=True)
@rule("StaticRegexReplace StaticRegexFullMatch UnicodeScript UnicodeTranscode", is_pointwise=True)
@rule("StringToHashBucket StringToHashBucketFast StringToHashBucketStrong", is_pointwise=True)
@rule("AsString StringToNumber EncodeBase64 DecodeBase64", is_pointwise=True)
@rule("RegexReplace RegexFullMatch", replicated=[1, 2])
def _one_string(operation: Operation) -> Decision | None:
    """Cut strings or numbers; a pattern may follow, and what takes its place."""
    return beside(operation, [])


# It hashes what lies along all axes but the first.
rule("Fingerprint", replicated=[1])(lambda op: batchwise(op, [0]))


@rule("StringJoin Substr")
def _with_scalars(operation: Operation) -> Decision | None:
    """Cut arrays of one shape; scalars are repeated."""
    first = operation.inputs[operation.with_rows()[0]]
    arrays = [i for i, value in enumerate(operation.inputs) if value.shape != ()]
    is_one_shape = all(operation.inputs[i].shape == first.known_shape for i in arrays)
    is_known = is_one_shape and first.rows.inner is not None
    return cut_inputs(operation, arrays, first.rows) if is_known else None


@rule("LookupTableFindV2", replicated=[2])
def _look_up(operation: Operation) -> Decision | None:
    """Cut keys, unless they are arrays and the rows lie within them."""
    keys, default = operation.inputs[1:]
    is_within = keys.rows.axis >= len(known(operation.outputs[0].shape)) - default.rank
    return None if is_within else Decision((HANDLE, keys.rows, REPLICATED), (keys.rows,))
