"""Operations that work element by element, with broadcasting."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Rows
from tnt_keras.partition.rules.axis_labels import along_one_label, broadcast_labels, known_shapes
from tnt_keras.partition.rules.registry import Decision, Operation, is_total, rule
from tnt_keras.partition.value import Value


@rule(
    "Neg Identity Snapshot StopGradient PreventGradient DebugGradientIdentity",
    linear=[0],
    spreads=True,
)
@rule(
    "Abs Acos Acosh Angle Asin Asinh Atan Atanh Bucketize Ceil CheckNumerics CheckNumericsV2 "
    "ComplexAbs Conj Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1 FakeQuantWithMinMaxArgs Floor "
    "Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p LogicalNot Ndtri "
    "PopulationCount Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Square Tan Tanh",
    spreads=True,
)
@rule(
    "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e "
    "BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin Spence",
    spreads=True,
)
def _of_one(operation: Operation) -> Decision:
    """Leave the output of a function of one element where the input is."""
    placement = operation.inputs[0].placement
    return Decision((placement,), (placement,))


@rule(
    "Atan2 ClipByValue Complex Div DivNoNan Equal FloorDiv FloorMod Greater GreaterEqual Less "
    "LessEqual LogicalAnd LogicalOr Maximum Minimum Mod MulNoNan NextAfter NotEqual Pow SelectV2 "
    "SquaredDifference TruncateDiv TruncateMod Xdivy Xlog1py Xlogy",
    spreads=True,
)
@rule(
    "EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad "
    "SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad TanhGrad",
    spreads=True,
)
@rule(
    "ApproximateEqual Betainc BitwiseAnd BitwiseOr BitwiseXor FakeQuantWithMinMaxArgsGradient "
    "FakeQuantWithMinMaxVars Igamma IgammaGradA Igammac LeftShift Polygamma RandomGammaGrad "
    "RightShift Zeta",
    spreads=True,
)
def _with_broadcasting(operation: Operation) -> Decision | None:
    """Align axes from the last one."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    rank = max(map(len, shapes))
    return along_one_label(operation, [broadcast_labels(s) for s in shapes], [range(-rank, 0)])


@rule("Add AddV2 AddN Sub", linear=None, spreads=True)
def _sums(operation: Operation) -> Decision | None:
    """Leave a sum of totals of one shape a total."""
    values = operation.inputs
    if all(is_total(v) and v.shape == values[0].shape for v in values):
        return Decision((PARTIAL,) * len(values), (PARTIAL,))
    return _with_broadcasting(operation)


@rule("Mul", linear=[0, 1], spreads=True)
def _product(operation: Operation) -> Decision | None:
    """Leave a total one when it is scaled by finite numbers."""
    first, second = operation.inputs
    if _scales(operation, total=first, factor=second):
        return Decision((PARTIAL, REPLICATED), (PARTIAL,))
    if _scales(operation, total=second, factor=first):
        return Decision((REPLICATED, PARTIAL), (PARTIAL,))
    return _with_broadcasting(operation)


@rule("RealDiv", linear=[0], spreads=True)
def _quotient(operation: Operation) -> Decision | None:
    """Do as for products."""
    total, divisor = operation.inputs
    if _scales(operation, total, divisor) and not np.any(divisor.constant == 0):
        return Decision((PARTIAL, REPLICATED), (PARTIAL,))
    return _with_broadcasting(operation)


def _scales(operation: Operation, total: Value, factor: Value) -> bool:
    """Whether a total is combined with known finite numbers, and has as many elements after it."""
    return (
        is_total(total)
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


@rule("Cast", linear=[0], spreads=True)
def _cast(operation: Operation) -> Decision | None:
    """Leave a total one when it is cast to a wider type."""
    [value], [output] = operation.inputs, operation.outputs
    if is_total(value) and output.dtype not in _WIDER.get(value.dtype, ()):
        return None
    return _of_one(operation)


@rule("Bitcast")
def _bitcast(operation: Operation) -> Decision | None:
    """Refuse types of different sizes: they change the number of axes."""
    if operation.inputs[0].dtype.size != operation.outputs[0].dtype.size:
        return None
    return _of_one(operation)


@rule("ZerosLike OnesLike", linear=[0], spreads=True)
def _filled_like(operation: Operation) -> Decision:
    """Form no totals: their values are not needed."""
    placement = operation.inputs[0].placement
    return Decision((placement,), (placement if isinstance(placement, Rows) else REPLICATED,))


@rule("IdentityN", linear=None)
def _identities(operation: Operation) -> Decision:
    placements = tuple(value.placement for value in operation.inputs)
    return Decision(placements, placements)


@rule("EnsureShape")
def _ensure_shape(operation: Operation) -> Decision | None:
    """Check the sizes of all axes but that of the rows."""
    rows, shape = operation.inputs[0].placement, operation.attributes["shape"]
    if not isinstance(rows, Rows) or shape is None:
        return None
    ensured = [None if axis == rows.axis else size for axis, size in enumerate(shape)]
    return Decision((rows,), (rows,), attributes={"shape": tf.TensorShape(ensured)})


@rule("Select")
def _select(operation: Operation) -> Decision | None:
    """Take a condition of the same shape, a scalar, or a vector for the first axis."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    rank = max(map(len, shapes))
    return along_one_label(operation, [range(len(s)) for s in shapes], [range(rank)])


@rule("BiasAdd BiasAddV1")
def _bias(operation: Operation) -> Decision | None:
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    axes = range(len(shapes[0]))
    return along_one_label(operation, [axes, [channel_axis(operation)]], [axes])


def channel_axis(operation: Operation) -> int:
    """Return the axis of the channels in an operation's first input."""
    if operation.attributes.get("data_format", b"NHWC").startswith(b"NC"):
        return 1
    return operation.inputs[0].rank - 1


@rule("FakeQuantWithMinMaxVarsGradient")
def _gradient_of_quantization(operation: Operation) -> Decision | None:
    """Sum the derivatives for the ends of the range over all elements."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    axes = range(len(shapes[0]))
    return along_one_label(operation, [axes, axes, [], []], [axes, PARTIAL, PARTIAL])
