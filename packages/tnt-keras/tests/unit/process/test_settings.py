"""Settings come from the environment; a malformed variable is named."""

from __future__ import annotations

import re

import pytest

from tnt_keras.process.rank import Settings, read_settings, threads_of_operations


def test_empty_environment_gives_the_documented_defaults() -> None:
    assert read_settings({}) == Settings(
        log_level="WARNING",
        log_on_all_ranks=False,
        output_on_all_ranks=False,
        tensorboard_on_all_ranks=None,
        gpus_per_node=None,
        fusion_threshold_bytes=32768,
        wire_dtype=None,
    )


@pytest.mark.parametrize("text", ["1", "true", "Yes", "ON"])
def test_switches_are_on_for_all_spellings(text: str) -> None:
    assert read_settings({"TNT_OUTPUT_ON_ALL_DEVICES": text}).output_on_all_ranks


@pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
def test_switches_are_off_for_all_spellings(text: str) -> None:
    assert not read_settings({"TNT_LOG_ON_ALL_DEVICES": text}).log_on_all_ranks


@pytest.mark.parametrize("name", ["TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD"])
def test_fusion_threshold_is_in_units_of_1024_bytes(name: str) -> None:
    assert read_settings({name: "64"}).fusion_threshold_bytes == 65536
    assert read_settings({name: "0"}).fusion_threshold_bytes == 0


@pytest.mark.parametrize("name", ["TNT_FUSION_THRESHOLD_KB", "TNT_FUSION_THRESHOLD"])
def test_an_automatic_fusion_threshold_is_no_number(name: str) -> None:
    assert read_settings({name: "Auto"}).fusion_threshold_bytes is None


@pytest.mark.parametrize(
    ("text", "dtype"), [("none", None), ("bfloat16", "bfloat16"), ("FLOAT16", "float16")]
)
def test_wire_dtype_is_a_name_or_none(text: str, dtype: str | None) -> None:
    assert read_settings({"TNT_WIRE_DTYPE": text}).wire_dtype == dtype


def test_two_different_fusion_thresholds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two names of one setting.*1 and 2"):
        read_settings({"TNT_FUSION_THRESHOLD_KB": "1", "TNT_FUSION_THRESHOLD": "2"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TNT_LOG_LEVEL", "LOUD"),
        ("TNT_LOG_ON_ALL_DEVICES", "maybe"),
        ("TNT_LOG_LEVEL", ""),
        ("TNT_OUTPUT_ON_ALL_DEVICES", " "),
        ("TNT_GPUS_PER_NODE", "-1"),
        ("TNT_GPUS_PER_NODE", "+1"),
        ("TNT_GPUS_PER_NODE", "0x1"),
        ("TNT_GPUS_PER_NODE", "\u0661"),
        ("TNT_FUSION_THRESHOLD_KB", "1_0"),
        ("TNT_FUSION_THRESHOLD_KB", "32kB"),
        ("TNT_WIRE_DTYPE", "int8"),
    ],
)
def test_malformed_variable_is_named_with_its_value(name: str, text: str) -> None:
    with pytest.raises(
        ValueError, match=f"{name} must be .*{re.escape(repr(text))}. Correct it or unset it"
    ):
        read_settings({name: text})


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("TNT_LOG_LEVEL", " info", "log_level", "INFO"),
        ("TNT_LOG_ON_ALL_DEVICES", "\tTrue\n", "log_on_all_ranks", True),
        ("TNT_GPUS_PER_NODE", " 0012 ", "gpus_per_node", 12),
        ("TNT_FUSION_THRESHOLD_KB", " 64 ", "fusion_threshold_bytes", 65536),
        ("TNT_WIRE_DTYPE", " BFloat16 ", "wire_dtype", "bfloat16"),
    ],
)
def test_blanks_around_a_value_and_its_case_are_ignored(
    name: str, text: str, field: str, value: object
) -> None:
    assert getattr(read_settings({name: text}), field) == value


@pytest.mark.parametrize(
    ("text", "threads"), [(None, None), ("", None), ("0", None), ("-3", None), (" 6 ", 6)]
)
def test_threads_of_operations_are_those_that_tensorflow_is_told(
    text: str | None, threads: int | None
) -> None:
    environment = {} if text is None else {"TF_NUM_INTRAOP_THREADS": text}
    assert threads_of_operations(environment) == threads
