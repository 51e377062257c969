"""The names of the meta-package are those of its parts."""

from importlib.metadata import version

import pytest

import tarantella as tnt
import tnt_comm
import tnt_data
import tnt_keras
from tnt_keras.legacy.original_names import LEFT_OUT


def test_every_name_of_tnt_keras_is_a_name_of_tarantella():
    differing = [
        name
        for name in tnt_keras.__all__
        if getattr(tnt, name, None) is not getattr(tnt_keras, name)
    ]
    assert differing == []


def test_the_parts_are_reachable_under_their_short_names():
    assert tnt.comm is tnt_comm
    differing = [
        name
        for name in tnt.data.__all__
        if getattr(tnt.data, name) is not getattr(tnt_data, name, None)
    ]
    knowing_the_ranks = ["Dataset", "DistributedDataset", "explain", "distribute"]
    assert differing == knowing_the_ranks


def test_every_name_in_all_exists():
    assert [name for name in tnt.__all__ if not hasattr(tnt, name)] == []


def test_the_version_is_that_of_the_installed_distribution():
    assert tnt.__version__ == version("tarantella")


@pytest.mark.parametrize("name", [name for name in LEFT_OUT if "." not in name])
def test_a_name_of_the_original_that_is_left_out_says_what_to_use(name):
    with pytest.raises(AttributeError, match="left out, use ") as caught:
        getattr(tnt, name)
    assert LEFT_OUT[name] in str(caught.value)


def test_a_name_of_horovod_says_what_to_use():
    with pytest.raises(
        AttributeError, match=r"'distribute_optimizer': use the optimizer as it is, with tnt"
    ):
        tnt.distribute_optimizer  # noqa: B018 - looking it up is the test
    with pytest.raises(AttributeError, match=r"use tnt.function instead of tf.function"):
        tnt.DistributedGradientTape  # noqa: B018


def test_a_name_that_is_no_more_says_that_nothing_takes_its_place():
    with pytest.raises(
        AttributeError, match="it is no longer needed, since every step gives the serial result"
    ):
        tnt.ProbeError  # noqa: B018


def test_public_modules_can_be_imported_by_their_full_names():
    import tarantella.callbacks
    import tarantella.comm
    import tarantella.data
    import tarantella.keras.callbacks
    import tarantella.models
    from tarantella.keras.models import load_model

    modules = ("callbacks", "comm", "data", "keras", "models")
    assert [getattr(tarantella, name) for name in modules] == [
        getattr(tnt, name) for name in modules
    ]
    assert tarantella.keras.callbacks is tnt_keras.callbacks
    assert load_model is tnt_keras.models.load_model
