"""Arguments of calls for GPUs that cannot be right are told before the driver is asked."""

import re
from typing import Any

import numpy as np
import pytest

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, TensorSpec

NO_INTEGERS = ["a", 1.0, 1.5, True, np.bool_(True), [1]]


def reducer(**arguments: Any) -> GradientReducer:
    specs = [TensorSpec(name, "float32", 4) for name in ("a", "b", "c")]
    return GradientReducer(FusionPlan(specs, 0), name="g", **arguments)


@pytest.mark.parametrize("gpu", NO_INTEGERS)
def test_the_number_of_a_gpu_is_an_integer(gpu: Any) -> None:
    text = re.escape(f"`gpu` must be an int. Received: {gpu!r} ({type(gpu).__name__}).")
    with pytest.raises(TypeError, match=text):
        reducer(gpu=gpu)
    with pytest.raises(TypeError, match=text):
        tnt_comm.gpu_obstacle(gpu)


def test_there_is_no_gpu_of_such_a_number() -> None:
    with pytest.raises(ValueError, match="`gpu` must be -1 for none, or >= 0"):
        reducer(gpu=-2)
    with pytest.raises(ValueError, match="`gpu` must be >= 0"):
        tnt_comm.gpu_obstacle(-1)
    for asks in (lambda gpu: reducer(gpu=gpu), tnt_comm.gpu_obstacle):
        with pytest.raises(ValueError, match="`gpu` must be an int of 32 bits"):
            asks(2**40)


def test_a_number_of_numpy_is_one() -> None:
    assert not reducer(gpu=np.int64(-1)).is_on_gpu


def calls(i: Any, address: Any, stream: Any) -> dict[str, Any]:
    """A start and a finish with these arguments, by the name of the address."""
    made = reducer()
    return {
        "data": lambda: made.start_on_gpu(i, address, stream=stream),
        "out": lambda: made.finish_on_gpu(i, address, stream=stream),
    }


@pytest.mark.parametrize("wrong", [None, *NO_INTEGERS])
def test_indices_addresses_and_streams_are_integers(wrong: Any) -> None:
    for place in ("i", "address", "stream"):
        arguments = {"i": 0, "address": 4096, "stream": 0} | {place: wrong}
        for name, call in calls(**arguments).items():
            argument = name if place == "address" else place
            with pytest.raises(TypeError, match=f"`{argument}` must be an int. Received: "):
                call()


def test_indices_addresses_and_streams_have_ranges() -> None:
    for i in (-1, 3):
        for call in calls(i, 4096, 0).values():
            text = f"GradientReducer 'g' has tensors 0 to 2. Received: i={i}."
            with pytest.raises(IndexError, match=text):
                call()
    for argument, call in calls(0, -1, 0).items():
        with pytest.raises(ValueError, match=f"`{argument}` must be >= 0"):
            call()
    for call in calls(0, 4096, -1).values():
        with pytest.raises(ValueError, match="`stream` must be >= 0"):
            call()


def test_a_reducer_without_a_gpu_takes_no_tensors_of_one() -> None:
    for call in calls(0, 4096, 0).values():
        with pytest.raises(ValueError, match="'g' has no GPU, so its tensors must be in the mem"):
            call()


def test_a_plan_without_tensors_has_no_index() -> None:
    empty = GradientReducer(FusionPlan([], 0), name="g")
    with pytest.raises(IndexError, match="'g' has no tensors"):
        empty.finish(0)
