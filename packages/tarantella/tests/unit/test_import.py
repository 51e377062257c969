"""Importing loads names, and what tells of a rank's errors: it asks nobody and prints nothing."""

import os
import subprocess
import sys

import pytest
from cases import cases

FORBIDDEN = """
import importlib.abc, sys
class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Forbid())
"""
MALFORMED = {
    "TNT_RANK": "first",
    "TNT_SIZE": "-2",
    "TNT_LOG_LEVEL": "LOUD",
    "TNT_GPUS_PER_NODE": "many",
    "TNT_TIMEOUT_S": "soon",
}


def run_python(code, **variables):
    """Run code in a fresh interpreter whose warnings are errors; return its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TNT_")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**environment, "CUDA_VISIBLE_DEVICES": "-1", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


@pytest.mark.parametrize("package", ["tarantella", "tnt_keras"])
def test_import_prints_nothing_and_fails_for_no_variable(package):
    assert run_python(f"import {package}", **MALFORMED) == ("", "")


@pytest.mark.parametrize("package", ["tarantella", "tnt_keras"])
def test_import_leaves_no_threads_files_or_handlers(package):
    code = f"""
import logging, os, threading
import numpy  # brings threads of its own
def state():
    handlers = [logging.getLogger(name).handlers for name in ("", "tnt_keras", "tnt_data")]
    return len(os.listdir("/proc/self/task")), os.listdir("/proc/self/fd"), handlers
before = state()
import {package} as tnt
dir(tnt)
assert state() == before, (before, state())
import sys
assert not {{"tensorflow", "keras"}} & set(sys.modules)
assert ("tnt_comm" in sys.modules) == ("TNT_RANK" in os.environ)
"""
    run_python(code)
    run_python(code, TNT_RANK="0", TNT_SIZE="2")


def test_names_that_need_no_tensorflow_do_without_it():
    code = f"""{FORBIDDEN}
import tarantella as tnt
assert tnt.versions()["python"]
assert (tnt.get_rank(), tnt.get_size(), tnt.is_master_rank()) == (0, 1, True)
assert tnt.comm.get_size() == 1
tnt.Barrier(tnt.Group()).execute()
assert tnt.is_group_master_rank(tnt.Group()) and tnt.ParallelStrategy.DATA
assert "Model" in dir(tnt)
"""
    assert run_python(code) == ("", "")


@pytest.mark.parametrize("name", ["Model", "data", "gather_batch", "models", "TensorAllreducer"])
def test_names_that_need_tensorflow_say_how_to_get_it(name):
    code = f"""{FORBIDDEN}
import tarantella as tnt
try:
    tnt.{name}
except ImportError as error:
    print(error)
"""
    output, _ = run_python(code)
    assert f"`{name}`" in output
    assert "`pip install tensorflow`" in output
    assert "`pip install tensorflow-cpu`" in output


@cases(
    ("variable", "use"),
    [("TNT_RANK", "tnt.get_rank()"), ("TNT_GPUS_PER_NODE", "tnt.Model(keras.Sequential())")],
    thorough=[("TNT_LOG_LEVEL", "tnt.Model(keras.Sequential())")],
)
def test_first_use_names_the_malformed_variable(variable, use):
    code = f"""
import tarantella as tnt
if "keras" in {use!r}:
    import keras
try:
    {use}
except ValueError as error:
    print(error)
"""
    job = {"TNT_SIZE": "2"} if variable == "TNT_RANK" else {}
    output, _ = run_python(code, TF_CPP_MIN_LOG_LEVEL="3", **job, **{variable: MALFORMED[variable]})
    assert variable in output
    assert MALFORMED[variable] in output


def test_unknown_attributes_are_attribute_errors():
    code = """
import tarantella, tnt_keras
for package in (tarantella, tnt_keras):
    assert not hasattr(package, "model_of_mine")
    assert package.__version__
"""
    run_python(code)
