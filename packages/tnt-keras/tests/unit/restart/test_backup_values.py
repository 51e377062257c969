"""What a backup holds comes back as it was, or it is told that it cannot."""

from __future__ import annotations

import io
import logging
import os
import pickle
import zipfile
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tnt_keras.restart.backup_files import (
    VALUE,
    DamagedError,
    NotPlainError,
    packed,
    read_container,
    unpacked,
)
from tnt_keras.restart.training_state import CallbackState
from tnt_keras.step.replicas import generator_states, set_generator_states

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner)
    ),
)
ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.zeros((0, 3), np.float16),
    np.array(2.5),
    np.array([True, False]),
    np.asarray(tf.constant([1.5, 2.0], tf.bfloat16)),
    np.arange(6.0).reshape(2, 3).T,
]


def _through_bytes(value: Any) -> Any:
    return unpacked(packed(value))


@given(PLAIN)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    assert repr(_through_bytes(value)) == repr(value)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_come_back_bit_for_bit(array: np.ndarray[Any, Any]) -> None:
    again = _through_bytes({"a": [array]})["a"][0]
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tobytes() == array.tobytes()
    assert again.flags.writeable


def test_numbers_of_numpy_tensors_sets_and_functions_keep_their_type() -> None:
    scalar, tensor, numbers, less = _through_bytes(
        (np.float32(0.1), tf.constant([1, 2]), {1, 2}, keras.ops.less)
    )
    assert isinstance(scalar, np.float32)
    assert scalar == np.float32(0.1)
    assert tf.is_tensor(tensor)
    assert tensor.numpy().tolist() == [1, 2]
    assert numbers == {1, 2}
    assert less is keras.ops.less


@pytest.mark.parametrize("value", [object(), [lambda: 0], np.array(["a"]), {"a": np.array([{}])}])
def test_other_objects_are_no_plain_values(value: Any) -> None:
    with pytest.raises(NotPlainError):
        packed(value)


def _container() -> bytes:
    return packed(({"a": 1}, ARRAYS))


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_torn_container_is_noticed(part: float) -> None:
    whole = _container()
    with pytest.raises(DamagedError):
        read_container(io.BytesIO(whole[: int(part * len(whole))]))


def test_a_changed_byte_is_noticed() -> None:
    whole = bytearray(_container())
    whole[whole.index(np.arange(6).tobytes()) + 8] ^= 1
    with pytest.raises(DamagedError, match="CRC"):
        read_container(io.BytesIO(bytes(whole)))


def test_another_archive_is_no_container() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(DamagedError):
        read_container(stream)


def test_random_generators_go_on_from_their_states() -> None:
    states = _through_bytes(generator_states())
    expected = np.random.rand()
    set_generator_states(states)
    assert np.random.rand() == expected


class _Waiting(keras.callbacks.Callback):
    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience, self.wait, self.seen, self.writer = patience, 0, [], None

    def wait_more(self) -> None:
        self.wait += 1
        self.seen.append(np.float32(self.wait))


def test_what_has_changed_is_restored_and_the_rest_is_of_the_script() -> None:
    first, again = _Waiting(patience=3), _Waiting(patience=5)
    state = CallbackState(first)
    first.wait_more()
    CallbackState(again).restore(state.save())
    assert (again.wait, again.seen, again.patience) == (1, [np.float32(1)], 5)


def test_what_changed_and_cannot_be_stored_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    callback = _Waiting(patience=3)
    state = CallbackState(callback)
    callback.writer = io.StringIO()  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING):
        state.save()
        state.save()
    [record] = caplog.records
    assert "'writer' of the callback _Waiting" in record.getMessage()
    assert "set_backup_state(state)" in record.getMessage()


def test_the_state_of_another_class_does_not_fit() -> None:
    saved = CallbackState(keras.callbacks.TerminateOnNaN()).save()
    assert CallbackState(keras.callbacks.TerminateOnNaN()).fits(saved)
    assert not CallbackState(_Waiting(patience=3)).fits(saved)


def test_no_code_is_read_from_a_container() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(VALUE, pickle.dumps(os.getcwd))
    with pytest.raises(DamagedError, match="names posix"):
        read_container(stream)


def test_a_container_that_was_cut_off_behind_one_inside_of_it_is_damaged():
    inner = _container()
    whole = packed(({"b": 2}, np.frombuffer(inner, np.uint8)))
    end = whole.index(inner) + len(inner)
    for cut in (end, end + 5):
        with pytest.raises(DamagedError, match="incomplete"):
            read_container(io.BytesIO(whole[:cut]))
