"""Choose how tensors share buckets and what they are rounded to while they travel; log it."""

from __future__ import annotations

import dataclasses
import functools

import tnt_comm
from tnt_keras.process.environment import settings
from tnt_keras.process.output import logger


@dataclasses.dataclass(frozen=True)
class Fusion:
    """How tensors share buckets and travel; by default, everything of one dtype together."""

    threshold_bytes: int = 2**62  # least size of a bucket; 0: no fusion
    wire_dtype: str | None = None  # of float32 tensors while they travel


@functools.cache
def gradient_fusion() -> Fusion:
    """Return how gradients are fused, measured if asked for. Collective when called first."""
    threshold_bytes = settings().fusion_threshold_bytes
    if threshold_bytes is None:
        link = tnt_comm.measure_link()
        threshold_bytes = tnt_comm.fusion_threshold_for(link)
        logger.info("%s", describe_choice(threshold_bytes, link))
    wire_dtype = settings().wire_dtype
    if wire_dtype is not None:
        effect = tnt_comm.measure_wire_effect(wire_dtype)
        logger.info("%s", describe_effect(wire_dtype, effect))
    return Fusion(threshold_bytes, wire_dtype)


def describe_choice(threshold_bytes: int, link: tnt_comm.Link) -> str:
    """Return the line that announces an automatic threshold. Pure."""
    return (
        f"fusion threshold auto: {threshold_bytes // 1024} kB (latency "
        f"{link.latency_s * 1e6:.0f} us, bandwidth {link.bytes_per_s / 1e9:.2g} GB/s)"
    )


def describe_effect(wire_dtype: str, effect: tnt_comm.WireEffect) -> str:
    """Return the line that says what compression was measured to do. Pure."""
    return (
        f"wire dtype {wire_dtype}: 4 MiB of float32 are summed in "
        f"{effect.compressed_s * 1e3:.2g} ms instead of {effect.plain_s * 1e3:.2g} ms, with a "
        f"relative error of {effect.relative_error:.1e}"
    )


def announce(name: str, plan: tnt_comm.FusionPlan) -> None:
    """Log what compression does to the tensors of a plan, if there is any. Local."""
    if plan.wire_dtype is None:
        return
    full = sum(bucket.num_bytes for bucket in plan.buckets)
    sent = sum(bucket.num_wire_bytes for bucket in plan.buckets)
    logger.info(
        "%s travel as %s: %.3g MB instead of %.3g MB per rank and step",
        name,
        plan.wire_dtype,
        sent / 1e6,
        full / 1e6,
    )
    if plan.wire_dtype == "float16":
        logger.warning(
            "TNT_WIRE_DTYPE=float16: gradients and their sums over ranks become infinite beyond "
            "65504 and lose bits below 6e-5. bfloat16 has the range of float32."
        )
