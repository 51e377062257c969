"""What a process does when it first does something distributed: settings, output, devices."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import tensorflow as tf

from tnt_keras.process import rank
from tnt_keras.process.framework import check_devices
from tnt_keras.process.rank import Settings, set_up_logging
from tnt_keras.process.variables import ALL_NAMES, warnings_of_unknown


@pytest.fixture
def loggers() -> Iterator[list[logging.Logger]]:
    """The loggers of tnt_keras and tnt_data, as if nobody had set them up; restored afterwards."""
    both = [logging.getLogger("tnt_keras"), logging.getLogger("tnt_data")]
    before = [(one.level, one.handlers[:], one.propagate) for one in both]
    for one in both:
        one.setLevel(logging.NOTSET)
        one.handlers.clear()
        one.propagate = True
    yield both
    for one, (level, handlers, propagate) in zip(both, before, strict=True):
        one.setLevel(level)
        one.handlers[:] = handlers
        one.propagate = propagate


def test_loggers_get_a_level_and_one_handler(loggers: list[logging.Logger]) -> None:
    for _ in range(2):
        set_up_logging(Settings(log_level="INFO"))
    for logger in loggers:
        assert (logger.level, len(logger.handlers), logger.propagate) == (logging.INFO, 1, False)


def test_other_ranks_log_errors_only(
    loggers: list[logging.Logger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "is_master_rank", lambda: False)
    set_up_logging(Settings(log_level="DEBUG"))
    assert [logger.level for logger in loggers] == [logging.ERROR] * 2


def test_level_and_handler_of_a_user_are_kept(loggers: list[logging.Logger]) -> None:
    handler = logging.NullHandler()
    loggers[0].addHandler(handler)
    loggers[0].setLevel(logging.CRITICAL)
    set_up_logging(Settings(log_level="DEBUG"))
    assert loggers[0].handlers == [handler]
    assert loggers[0].propagate
    assert loggers[0].level == logging.CRITICAL


def test_root_logger_is_left_alone(loggers: list[logging.Logger]) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    set_up_logging(Settings(log_level="DEBUG"))
    assert (root.level, root.handlers) == before


def test_unknown_name_is_warned_about_with_a_known_one_that_resembles_it() -> None:
    names = ["TNT_TIMEOUT", "TNT_ZZZZ", "PATH", "TNT_MODELS_PATH", *ALL_NAMES]
    assert list(warnings_of_unknown(names, ALL_NAMES)) == [
        "TNT_TIMEOUT is not a variable of Tarantella and has no effect on it. "
        "Did you mean TNT_TIMEOUT_S? [unknown-variable]",
        "TNT_ZZZZ is not a variable of Tarantella and has no effect on it. [unknown-variable]",
    ]


def test_missing_gpu_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    with pytest.raises(RuntimeError, match=r"TNT_GPUS_PER_NODE=2.*--no-gpu"):
        check_devices(Settings(gpus_per_node=2))
    check_devices(Settings(gpus_per_node=0))
    check_devices(Settings())
