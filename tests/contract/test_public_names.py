"""The names that scripts use are there, and come from the package that is said to define them."""

import importlib
import inspect

import pytest
from public_names import names_of
from run_command import ROOT

import tarantella as tnt
from tnt_comm import _core
from tnt_keras.legacy.original_names import LEFT_OUT

RANKS = [
    "get_rank",
    "get_size",
    "get_local_rank",
    "get_local_size",
    "get_master_rank",
    "is_master_rank",
    "get_group_master_rank",
    "is_group_master_rank",
]
COLLECTIVES = _core.collectives()  # of C++, which Python has to follow


MODULES = ["callbacks", "data", "keras", "models"]
BATCH = ["gather_batch", "batch_sum", "batch_mean", "explain"]
TENSORS = ["TensorAllreducer", "TensorBroadcaster", "TensorAllgatherer", "Barrier"]


@pytest.mark.parametrize(
    "name", ["Model", "Sequential", "ParallelStrategy", *RANKS, *BATCH, *TENSORS]
)
def test_names_of_a_training_script(name):
    assert callable(getattr(tnt, name))
    assert getattr(tnt, name).__module__.startswith("tnt_keras")


def test_names_of_callbacks():
    assert tnt.callbacks is tnt.keras.callbacks
    assert callable(tnt.callbacks.Callback)
    assert callable(tnt.callbacks.run_on_master)


@pytest.mark.parametrize("name", ["Group", "Ticket", "FusionPlan", "GradientReducer", *COLLECTIVES])
def test_names_of_the_collectives(name):
    assert callable(getattr(tnt.comm, name))
    assert name in tnt.comm.__all__


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_of_all_ranks_has_the_arguments_of_that_of_a_group(name):
    group = tnt.comm.Group
    _, *of_group = inspect.signature(getattr(group, name)).parameters.values()
    assert list(inspect.signature(getattr(tnt.comm, name)).parameters.values()) == of_group
    _, *of_start = inspect.signature(getattr(group, f"start_{name}")).parameters
    assert {"label", "caller"} <= {*of_start} <= {one.name for one in of_group}


def test_communication_errors_can_be_caught_as_one_and_timeouts_as_timeouts():
    kinds = (tnt.comm.CommTimeoutError, tnt.comm.PeerLostError, tnt.comm.MismatchError)
    assert all(issubclass(kind, tnt.comm.CommError) for kind in kinds)
    assert issubclass(tnt.comm.CommTimeoutError, TimeoutError)


def test_without_the_launcher_a_script_is_a_world_of_one_rank():
    assert (tnt.get_rank(), tnt.get_size(), tnt.get_local_rank()) == (0, 1, 0)
    assert tnt.is_master_rank()
    assert tnt.get_master_rank() == 0


@pytest.mark.parametrize(
    "module",
    ["tarantella", "tnt_comm", "tnt_data", "tnt_keras", *(f"tnt_keras.{name}" for name in MODULES)],
)
def test_the_names_that_decide_a_version_are_those_that_a_module_exports(module):
    package = module.partition(".")[0]
    names = names_of(package, ROOT / "packages" / package.replace("_", "-") / "src")
    found = {name for name in names if name.rpartition(".")[0] == module}
    exported = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert found - {"tnt_comm.testing"} == exported


@pytest.mark.parametrize("name", LEFT_OUT)
def test_names_of_the_original_that_are_left_out_are_documented(name):
    page = (ROOT / "docs/reference/original_names.md").read_text(encoding="utf-8")
    assert f"`tnt.{name}" in page
