"""A program in C as ranks of a job, without Python: the example, and calls on several ranks."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tnt_comm

EXAMPLE = Path(__file__).parents[3] / "examples" / "reduce_gradients.c"
CALLS = Path(__file__).with_name("c_calls.c")
DEADLINE_S = 110
USAGE, TIMEOUT, PEER_LOST = 1, 3, 4
ENDLESS = str(10**12)


def build(source: Path, folder: Path) -> Path:
    """Compile a program as a user does who has installed the package."""
    program = folder / source.stem
    libraries = str(Path(tnt_comm.library_path()).parent)
    subprocess.run(
        [
            *("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"),
            *("-I", tnt_comm.include_path(), str(source), "-o", str(program)),
            *("-L", libraries, "-ltnt_comm", f"-Wl,-rpath,{libraries}"),
        ],
        check=True,
        timeout=DEADLINE_S,
    )
    return program


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CALLS, tmp_path_factory.mktemp("calls"))


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    """Kill what still runs at the end of a test."""
    with ExitStack() as stack:
        yield stack


def start(
    program: Path, size: int, *arguments: str, processes: ExitStack
) -> list[subprocess.Popen[str]]:
    job_id = secrets.token_hex(8)
    ranks = []
    for rank in range(size):
        variables = {"TNT_RANK": str(rank), "TNT_SIZE": str(size), "TNT_JOB_ID": job_id}
        process = subprocess.Popen(
            [program, *arguments],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.enter_context(process)
        processes.callback(process.kill)
        ranks.append(process)
    return ranks


def ends_of(ranks: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each rank."""
    ends = []
    for process in ranks:
        output, errors = process.communicate(timeout=DEADLINE_S)
        ends.append((process.returncode, output, errors))
    return ends


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_example_sums_gradients(example: Path, size: int, processes: ExitStack) -> None:
    ends = ends_of(start(example, size, "5", processes=processes))
    assert [(code, errors) for code, _, errors in ends] == [(0, "")] * size
    for rank, (_, output, _) in enumerate(ends):
        assert f"rank {rank} of {size}: 4 gradients (407080 bytes) in 2 buckets" in output
        assert f"rank {rank}: 5 steps, all sums are right" in output


def test_a_rank_that_is_killed_ends_the_others(example: Path, processes: ExitStack) -> None:
    ranks = start(example, 2, ENDLESS, processes=processes)
    for process in ranks:  # all have joined, and created the reducer together
        assert process.stdout is not None
        assert "rank" in process.stdout.readline()
    ranks[1].kill()
    code, output, errors = ends_of(ranks)[0]
    assert code == PEER_LOST
    assert "all sums are right" not in output
    assert "rank 1" in errors


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_call_on_several_ranks(calls: Path, size: int, processes: ExitStack) -> None:
    ends = ends_of(start(calls, size, "values", processes=processes))
    assert [(code, errors) for code, _, errors in ends] == [(0, "")] * size


def test_a_wait_ends_at_the_timeout_of_the_call(calls: Path, processes: ExitStack) -> None:
    ends = ends_of(start(calls, 2, "timeouts", processes=processes))
    assert [(code, errors) for code, _, errors in ends] == [(0, "")] * 2
