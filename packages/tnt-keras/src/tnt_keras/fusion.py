"""How tensors share buckets and as what they travel: chosen once, and announced."""

from __future__ import annotations

import dataclasses
import functools

import tnt_comm
from tnt_keras.environment import settings
from tnt_keras.log import logger


@dataclasses.dataclass(frozen=True)
class Fusion:
    """How tensors share buckets and travel; by default, everything of one dtype together.

    Attributes:
        threshold_bytes: Tensors are fused into buckets of at least this size; 0 turns fusion off.
        wire_dtype: What float32 tensors are rounded to while they travel, or None.
    """

    threshold_bytes: int = 2**62
    wire_dtype: str | None = None


@functools.cache
def gradient_fusion() -> Fusion:
    """Returns how gradients are fused: as the environment says. Collective when called first.

    With `TNT_FUSION_THRESHOLD_KB=auto` the ranks then measure some allreduces, see
    `tnt_comm.fusion_threshold_for`.
    """
    threshold_bytes = settings().fusion_threshold_bytes
    if threshold_bytes is None:
        link = tnt_comm.measure_link()
        threshold_bytes = tnt_comm.fusion_threshold_for(link)
        logger.info("%s", describe_choice(threshold_bytes, link))
    return Fusion(threshold_bytes, settings().wire_dtype)


def describe_choice(threshold_bytes: int, link: tnt_comm.Link) -> str:
    """Returns the line that announces an automatic threshold. Pure.

    Args:
        threshold_bytes: What was chosen.
        link: What was measured.
    """
    return (
        f"fusion threshold auto: {threshold_bytes // 1024} kB (latency "
        f"{link.latency_s * 1e6:.0f} us, bandwidth {link.bytes_per_s / 1e9:.2g} GB/s)"
    )


def announce(name: str, plan: tnt_comm.FusionPlan) -> None:
    """Says what compression does to the tensors of a plan; nothing if there is none. Local.

    Args:
        name: Names the tensors.
        plan: Their plan.
    """
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
