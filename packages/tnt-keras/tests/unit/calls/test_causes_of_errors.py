"""The cause of a failure is found in what TensorFlow makes of it, and errors of users are left."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import tensorflow as tf

import tnt_comm
from tnt_keras.calls.current_call import user_frames_of, user_line
from tnt_keras.calls.errors import cause_of


def _raised(function: Any, *args: Any) -> Exception:
    with pytest.raises(Exception) as info:
        function(*args)
    return info.value


def test_assertion_of_a_user_is_an_error_of_the_user() -> None:
    error = _raised(tf.debugging.assert_equal, tf.constant(1), tf.constant(2), "mine")
    assert isinstance(error, tf.errors.InvalidArgumentError)
    assert cause_of(error) is None
    assert cause_of(ValueError("PeerLostError: rank 1")) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UsageError", ValueError),
        ("CommError", tnt_comm.CommError),
        ("CommTimeoutError", tnt_comm.CommTimeoutError),
        ("PeerLostError", tnt_comm.PeerLostError),
        ("MismatchError", tnt_comm.MismatchError),
    ],
)
def test_failure_of_an_operation_becomes_the_error_of_tnt_comm(name: str, kind: type) -> None:
    sentence = "rank 0: step 3 of bucket 0 ('dense/bias') needs rank [1]. Look there."
    graph = "Graph execution error:\n\nDetected at node TntFinishReduce defined at (most ...):\n"
    for text in (
        f"{name}: {sentence}",
        f"{graph}<stack traces unavailable>\n{name}: {sentence}\n\t [[{{{{node a}}}}]] [Op:b]",
    ):
        cause = cause_of(tf.errors.UnavailableError(None, None, text))
        assert type(cause) is kind
        assert cause.args == (sentence,)


def test_error_of_tnt_comm_is_its_own_cause() -> None:
    error = tnt_comm.PeerLostError("rank 1 is gone")
    assert cause_of(error) is error


def test_line_of_a_user_is_the_nearest_outside_of_the_packages() -> None:
    def call_back() -> str:
        return user_line()

    assert call_back() == f"{pathlib.Path(__file__).name}:{call_back.__code__.co_firstlineno + 1}"


def test_line_in_a_file_whose_name_is_no_text_can_be_sent() -> None:
    names: dict[str, Any] = {"user_line": user_line}
    exec(compile("line = user_line()", "/scripts/tr\udcc3.py", "exec"), names)
    assert names["line"] == r"tr\udcc3.py:1"


def test_traceback_keeps_frames_of_the_user_alone() -> None:
    error = _raised(lambda: tf.data.Dataset.range(3).batch(-1))
    assert any("tensorflow" in name for name in _files(error.__traceback__))
    kept = _files(user_frames_of(error.__traceback__))
    assert kept
    assert not any("tensorflow" in name for name in kept)


def _files(traceback: Any) -> list[str]:
    names = []
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return names
