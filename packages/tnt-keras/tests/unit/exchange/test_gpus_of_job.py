"""Which GPU reducers are for, what is said about it, and where their operations are put."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

import tnt_comm
from tnt_keras.exchange import gpus


@pytest.fixture(autouse=True)
def anew() -> None:
    """Each test asks for the first time."""
    gpus.gpu_of_job.cache_clear()
    gpus.tell_what_sums.cache_clear()


def _ranks(
    monkeypatch: pytest.MonkeyPatch, own: list[str], others: list[bool], obstacle: str = ""
) -> None:
    names = [SimpleNamespace(name=f"/physical_device:GPU:{number}") for number in own]
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: names)
    monkeypatch.setattr(tnt_comm, "gpu_obstacle", lambda gpu, is_stream_known: obstacle)
    monkeypatch.setattr(
        gpus, "allgather", lambda name, message: [message, *(bytes([each]) for each in others)]
    )


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ([], [False, False], None),
        ([], [False, True], -1),
        (["0"], [False], 0),
        (["2", "5"], [True], 2),  # which TensorFlow calls GPU:0
    ],
    ids=["none", "only others'", "its own", "one of several"],
)
def test_reducers_are_for_the_gpu_that_tensorflow_uses(
    own: list[str], others: list[bool], expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ranks(monkeypatch, own, others)
    assert gpus.gpu_of_job() == expected


def test_a_gpu_that_cannot_be_summed_from_is_told_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _ranks(monkeypatch, ["0"], [True], obstacle="The driver is too old.")
    assert gpus.gpu_of_job() == -1
    [message] = caplog.messages
    assert "cannot be summed from the GPU. The driver is too old. [gradients-through-" in message


def test_what_sums_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="tnt_keras")
    for _ in range(2):
        gpus.tell_what_sums("ipc", "all GPUs of a host reach each other")
    [message] = caplog.messages
    assert message.endswith("summed by the GPUs of each host: all GPUs of a host reach each other.")


@pytest.mark.parametrize(
    ("own", "is_on_gpu", "device"),
    [([], False, ""), (["0"], True, ""), (["0"], False, "/device:CPU:0")],
    ids=["no GPU", "reducer of a GPU", "reducer of the host beside a GPU"],
)
def test_operations_of_hosts_are_kept_from_gpus(
    own: list[str], is_on_gpu: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ranks(monkeypatch, own, [])
    reducer: Any = SimpleNamespace(is_on_gpu=is_on_gpu)
    with tf.Graph().as_default(), gpus.placement_of(reducer):
        assert tf.no_op().device == device


def test_this_tensorflow_tells_operations_their_stream() -> None:
    assert gpus._knows_streams()
