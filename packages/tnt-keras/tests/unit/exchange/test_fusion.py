"""What is said about fusion and compression."""

from __future__ import annotations

import logging

from tnt_comm import FusionPlan, Link, TensorSpec, WireEffect
from tnt_keras.exchange.channels import announce, describe_choice, describe_effect
from tnt_keras.process.rank import logger


def test_an_automatic_threshold_is_announced_with_what_was_measured() -> None:
    link = Link(latency_s=9.2e-6, bytes_per_s=9.8e9)
    assert describe_choice(256 * 1024, link) == (
        "fusion threshold auto: 256 kB (latency 9 us, bandwidth 9.8 GB/s)"
    )


def test_compression_is_announced_with_what_it_was_measured_to_do() -> None:
    effect = WireEffect(plain_s=0.0712, compressed_s=0.0361, relative_error=0.00166)
    assert describe_effect("bfloat16", effect) == (
        "wire dtype bfloat16: 4 MiB of float32 are summed in 36 ms instead of 71 ms, with a "
        "relative error of 1.7e-03"
    )


def _announced(wire_dtype: str | None) -> list[tuple[str, str]]:
    records: list[tuple[str, str]] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append((record.levelname, record.getMessage()))

    tensors = [TensorSpec("kernel", "float32", 500_000), TensorSpec("steps", "int64", 125_000)]
    handler, level = Collect(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        announce("gradients", FusionPlan(tensors, 32768, wire_dtype))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return records


def test_compression_is_announced_with_its_effect() -> None:
    # 2 MB of float32 are halved, 1 MB of integers is not.
    assert _announced("bfloat16") == [
        ("INFO", "gradients travel as bfloat16: 2 MB instead of 3 MB per rank and step")
    ]


def test_float16_is_answered_with_a_warning_of_its_range() -> None:
    [(level, _), (warning_level, warning)] = _announced("float16")
    assert (level, warning_level) == ("INFO", "WARNING")
    assert "65504" in warning


def test_nothing_is_said_without_compression() -> None:
    assert _announced(None) == []
