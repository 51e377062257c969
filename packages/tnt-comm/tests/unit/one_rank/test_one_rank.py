"""A process without a launcher is a world of one rank, for which everything works."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tnt_comm
import tnt_comm.fusion_plan
import tnt_comm.gradient_reducer
import tnt_comm.shared_array
from tnt_comm import FusionPlan, Gatherer, GradientReducer, TensorSpec

ALONE = {k: v for k, v in os.environ.items() if not k.startswith("TNT_")}


def python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], env=ALONE, timeout=110, capture_output=True, text=True
    )


def test_everybody_is_rank_zero_of_one() -> None:
    tnt_comm.init()
    tnt_comm.init()
    assert tnt_comm.is_initialized()
    assert (tnt_comm.get_rank(), tnt_comm.get_size()) == (0, 1)
    assert (tnt_comm.get_local_rank(), tnt_comm.get_local_size()) == (0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, ml_dtypes.bfloat16])
def test_collectives_give_back_what_they_got(dtype: type) -> None:
    own: np.ndarray = np.ones((3, 2), dtype)
    for received in (
        tnt_comm.allreduce(own, "max"),
        tnt_comm.broadcast(own),
        tnt_comm.allgather(own)[0],
        tnt_comm.reduce_scatter(own, "max"),
        tnt_comm.alltoall(own),
        tnt_comm.scatter(own),
        *(tnt_comm.gather(own) or []),
    ):
        assert received.dtype == own.dtype
        np.testing.assert_array_equal(received, own)
        assert received is not own
    tnt_comm.barrier()


def test_modules_start_nothing_when_they_are_imported() -> None:
    done = python("import tnt_comm; print(tnt_comm.is_initialized())")
    assert done.stdout == "False\n"


def test_tensorflow_is_not_needed() -> None:
    done = python("import sys, tnt_comm; tnt_comm.init(); print('tensorflow' in sys.modules)")
    assert done.stdout == "False\n"


def test_malformed_variables_are_named_also_alone() -> None:
    code = "import os; os.environ['TNT_TIMEOUT_S'] = '-3'; import tnt_comm; tnt_comm.init()"
    done = python(code)
    assert done.returncode == 1
    assert "TNT_TIMEOUT_S='-3'" in done.stderr


@pytest.mark.parametrize("name", ["TNT_RANK", "TNT_SIZE"])
def test_half_an_environment_is_refused(name: str) -> None:
    done = python(f"import os; os.environ['{name}'] = '0'; import tnt_comm; tnt_comm.init()")
    assert done.returncode == 1
    assert f"must be set when {name} is" in done.stderr


def test_several_hosts_that_the_environment_does_not_count_are_refused() -> None:
    variables = {"TNT_RANK": "0", "TNT_SIZE": "2", "TNT_LOCAL_SIZE": "1", "TNT_JOB_ID": "a" * 8}
    done = python(f"import os; os.environ.update({variables}); import tnt_comm; tnt_comm.init()")
    assert "For several hosts set TNT_NUM_NODES and TNT_NODE_RANK" in done.stderr


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    readme = Path(__file__).parents[3] / "README.md"
    example, gradients = readme.read_text().split("```python\n")[1:3]
    script = tmp_path / "sums.py"
    script.write_text(example.split("```")[0] + gradients.split("```")[0] + "print(kernel[0])\n")
    job = {"TNT_SIZE": "2", "TNT_JOB_ID": f"readme{os.getpid()}", "TNT_TIMEOUT_S": "80"}
    ranks = [
        subprocess.Popen(
            [sys.executable, script],
            env={**ALONE, **job, "TNT_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(ranks):
        out, _ = process.communicate(timeout=110)
        assert out == (f"rank {rank} of 2: [3. 3. 3. 3.], [0, 1], [1. 1. 1. 1.]\n1.0\n")


@pytest.mark.parametrize(
    "module", [tnt_comm.fusion_plan, tnt_comm.gradient_reducer, tnt_comm.shared_array]
)
def test_examples_in_docstrings_are_true(module: object) -> None:
    names = {"np": np, **{name: getattr(tnt_comm, name) for name in tnt_comm.__all__}}
    failed, tried = doctest.testmod(module, extraglobs=names)  # type: ignore[arg-type]
    assert (failed, tried > 0) == (0, True)


def test_every_public_name_is_documented() -> None:
    for name in tnt_comm.__all__:
        assert getattr(tnt_comm, name).__doc__, name


@pytest.mark.parametrize("ranks", [0, "0", [0.5], [None]])
def test_ranks_of_a_group_are_integers(ranks: object) -> None:
    with pytest.raises(TypeError, match="`ranks` must be a sequence of integers"):
        tnt_comm.Group(ranks)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [np.int64(5), [np.int64(5)], (5,), np.array([5])])
def test_lengths_of_shared_arrays_are_those_that_numpy_takes(shape: Any) -> None:
    assert tnt_comm.empty(shape, "f4").shape == np.empty(shape, "f4").shape == (5,)


PLAN = FusionPlan([TensorSpec("x", "float64", 1)], 0)
WRONG_ARGUMENTS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: tnt_comm.empty((1 << 63,), "f4"), ValueError, "`shape` must be an int of 64 bits"),
    (lambda: tnt_comm.empty((1 << 62,), "f4"), ValueError, "more than any memory holds"),
    (lambda: tnt_comm.empty((2, 1.5), "f4"), TypeError, "`shape` must be an int. Received: 1.5"),  # type: ignore[arg-type]
    (lambda: tnt_comm.empty(None, "f4"), TypeError, "`shape` must be an int. Received: None"),  # type: ignore[arg-type]
    (lambda: TensorSpec("x", "f4", 1.5), TypeError, "`num_elements` of tensor 'x' must be an int"),  # type: ignore[arg-type]
    (lambda: TensorSpec("x", "f4", 1 << 64), ValueError, "`num_elements` of tensor 'x' must be"),
    (lambda: TensorSpec(None, "f4", 1), TypeError, "`name` must be a str. Received: None"),  # type: ignore[arg-type]
    (lambda: FusionPlan([], 1.5), TypeError, "`threshold_bytes` must be an int. Received: 1.5"),  # type: ignore[arg-type]
    (lambda: FusionPlan([], 0, 16), TypeError, "`wire_dtype` must be a str. Received: 16"),  # type: ignore[arg-type]
    (lambda: GradientReducer(PLAN, name=None), TypeError, "`name` must be a str"),  # type: ignore[arg-type]
    (lambda: GradientReducer(PLAN).start(0, [1.0], "2"), TypeError, "`scale` must be a number"),  # type: ignore[arg-type]
    (lambda: Gatherer(5), TypeError, "`name` must be a str. Received: 5 (int)"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG_ARGUMENTS)
def test_an_argument_of_a_wrong_type_is_named(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_numbers_of_numpy_are_taken() -> None:
    plan = FusionPlan([TensorSpec("x", "float64", np.int64(1))], np.int32(0))  # type: ignore[arg-type]
    reducer = GradientReducer(plan)
    reducer.start(0, [3.0], scale=np.float32(2))  # type: ignore[arg-type]
    assert reducer.finish(0, timeout_s=np.int64(60)).tolist() == [6.0]  # type: ignore[arg-type]
