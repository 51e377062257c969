"""Joining a job: what is refused, and what is said."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import tnt_comm
from tnt_comm.testing import run_ranks

SCRIPT = "import tnt_comm; tnt_comm.init(); print(tnt_comm.get_rank(), tnt_comm.get_size())"


def start(
    rank: int,
    size: int,
    job_id: str,
    *,
    script: str = SCRIPT,
    prefix: Sequence[str] = (),
    **more: str,
) -> "subprocess.Popen[str]":
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("TNT_")},
        "TNT_RANK": str(rank),
        "TNT_SIZE": str(size),
        "TNT_JOB_ID": job_id,
        "TNT_TIMEOUT_S": "60",
        **more,
    }
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", script],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=110)
    return process.returncode, out, err


@pytest.fixture
def job_id() -> str:
    return f"startup{os.getpid()}"


def identity() -> tuple[int, ...]:
    return (
        tnt_comm.get_rank(),
        tnt_comm.get_size(),
        tnt_comm.get_local_rank(),
        tnt_comm.get_local_size(),
    )


def test_every_rank_knows_who_it_is() -> None:
    assert run_ranks(identity, 3) == [(r, 3, r, 3) for r in range(3)]


def test_ranks_of_another_build_are_refused_before_anything_else(job_id: str) -> None:
    """Whatever the rest of the shared memory is laid out like there."""
    first = Path(f"/dev/shm/tnt-{job_id}-control")
    first.touch(mode=0o600)
    first.write_bytes(b"tnt-comm 99.1.0, little-endian".ljust(1000, b"\0"))
    try:
        status, _, err = outcome(start(1, 2, job_id))
    finally:
        first.unlink()
    assert status == 1
    assert "run different builds: rank 0 has tnt-comm 99.1.0, little-endian, and rank 1 has" in err
    assert "Start all with the same Python environment." in err


def test_a_rank_waits_for_shared_memory_that_is_still_being_written(job_id: str) -> None:
    first = Path(f"/dev/shm/tnt-{job_id}-control")
    first.touch(mode=0o600)
    first.write_bytes(b"\0nt-comm 99.1.0".ljust(1000, b"\0"))
    late = start(1, 2, job_id)
    with pytest.raises(subprocess.TimeoutExpired):
        late.wait(3)
    first.unlink()
    assert outcome(start(0, 2, job_id))[:2] == (0, "0 2\n")
    assert outcome(late)[:2] == (0, "1 2\n")


def test_ranks_of_a_host_have_one_order_of_summation(job_id: str) -> None:
    first = start(0, 2, job_id, TNT_TIMEOUT_S="3")
    code, _, err = outcome(start(1, 2, job_id, TNT_SUM_TREE="2"))
    assert code == 1
    assert "rank 1 has TNT_SUM_TREE=2, but rank 0 has unset" in err
    assert outcome(first)[0] == 1


def test_three_variables_are_enough(job_id: str) -> None:
    ranks = [start(rank, 2, job_id) for rank in range(2)]
    assert [outcome(rank)[:2] for rank in ranks] == [(0, "0 2\n"), (0, "1 2\n")]


def test_blanks_and_the_case_of_words_do_not_matter(job_id: str) -> None:
    values = {
        "TNT_TIMEOUT_S": " 6e1 ",
        "TNT_STALL_S": ".5",
        "TNT_TRANSPORT": " SHM",
        "TNT_LOG_LEVEL": "info\t",
        "TNT_ALLREDUCE_ALGORITHM": "Two_Shot ",
        "TNT_GPI2_LIBRARY": "",
        "TNT_GPI2_PORT": "64511",
        "TNT_RANK": " 0",
        "TNT_SIZE": "01 ",
    }
    assert outcome(start(0, 1, job_id, **values))[:2] == (0, "0 1\n")


def test_a_rank_that_never_comes_is_named(job_id: str) -> None:
    code, _, err = outcome(start(0, 2, job_id, TNT_TIMEOUT_S="2", TNT_STALL_S="0.5"))
    assert code == 1
    assert "init() has waited" in err
    assert "CommTimeoutError" in err
    assert "rank 1 of 2 did not join" in err
    assert not Path(f"/dev/shm/tnt-{job_id}-control").exists()


def test_a_missing_first_rank_is_named(job_id: str) -> None:
    code, _, err = outcome(start(1, 2, job_id, TNT_TIMEOUT_S="2"))
    assert code == 1
    assert "waited for rank 0" in err


def test_a_name_that_exists_is_refused(job_id: str) -> None:
    leftover = Path(f"/dev/shm/tnt-{job_id}-control")
    leftover.write_bytes(b"not ours")
    try:
        code, _, err = outcome(start(0, 2, job_id))
        assert code == 1
        assert f"'/tnt-{job_id}-control': File exists" in err
        assert "use another job id or remove it" in err
        assert leftover.read_bytes() == b"not ours"
    finally:
        leftover.unlink()


def test_two_processes_cannot_be_the_same_rank(job_id: str) -> None:
    ranks = [start(rank, 3, job_id, TNT_TIMEOUT_S="5") for rank in (0, 1, 1)]
    errors = "".join(outcome(rank)[2] for rank in ranks)
    assert "another process has joined job" in errors


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("TNT_RANK", "one", "must be an integer in [0, 1]"),
        ("TNT_RANK", "2", "must be an integer in [0, 1]"),
        ("TNT_RANK", "+1", "must be an integer in [0, 1]"),
        ("TNT_RANK", "0x1", "must be an integer in [0, 1]"),
        ("TNT_SIZE", "0", "must be an integer"),
        ("TNT_SIZE", "0_2", "must be an integer"),
        ("TNT_SIZE", "", "must be an integer"),
        ("TNT_LOCAL_RANK", "-1", "must be an integer"),
        ("TNT_JOB_ID", "short", "must be 8 to 32 letters and digits"),
        ("TNT_JOB_ID", "../../etc/passwd", "must be 8 to 32 letters and digits"),
        ("TNT_TIMEOUT_S", "soon", "must be a number of seconds > 0"),
        ("TNT_TIMEOUT_S", "nan", "must be a number of seconds > 0"),
        ("TNT_TIMEOUT_S", "0x5", "must be a number of seconds > 0"),
        ("TNT_GPI2_PORT", "64512", "must be an integer in [1024, 64511]"),
        ("TNT_GPI2_PORT", "20_000", "must be an integer in [1024, 64511]"),
        ("TNT_ALLREDUCE_ALGORITHM", "", "must be one of auto, one_shot, two_shot"),
        ("TNT_STALL_S", "0", "must be a number of seconds > 0"),
        ("TNT_TRANSPORT", "tcp", "must be one of auto, shm, gpi2, ucx"),
    ],
)
def test_a_malformed_variable_is_named(job_id: str, name: str, value: str, rule: str) -> None:
    code, _, err = outcome(start(0, 2, job_id, **{name: value}))
    assert code == 1
    assert f"ValueError: Environment variable {name} {rule}" in err
    assert f"{name}='{value}'" in err


@pytest.mark.parametrize(
    ("rank", "local_rank"), [("1", "0"), ("0", "1")], ids=["past the end", "before the first"]
)
def test_a_rank_of_a_host_that_the_job_does_not_have_is_refused(
    job_id: str, rank: str, local_rank: str
) -> None:
    code, _, err = outcome(
        start(int(rank), 2, job_id, TNT_LOCAL_RANK=local_rank, TNT_TIMEOUT_S="5")
    )
    assert code == 1
    assert f"contradicts itself: TNT_LOCAL_RANK={local_rank} of TNT_LOCAL_SIZE=2" in err
    assert f"TNT_RANK={rank} of TNT_SIZE=2" in err


def test_a_limit_of_file_sizes_is_named(job_id: str) -> None:
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); {SCRIPT}"
    code, _, err = outcome(start(0, 2, job_id, script=script))
    assert code == 1
    assert "File too large. The limit of bytes in a file (ulimit -f) is 100: raise it." in err


def test_shared_memory_that_cannot_be_written_is_told(job_id: str) -> None:
    command = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro tmpfs /dev/shm && exec "$0" "$@"']
    if subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("a mount namespace of its own is not permitted here")
    code, _, err = outcome(start(0, 2, job_id, prefix=command))
    assert code == 1
    assert "Read-only file system. The ranks of a host need a file system in memory" in err


def full_shared_memory() -> str:
    with pytest.raises(tnt_comm.CommError) as caught:
        tnt_comm.empty(1 << 38, "float32")
    return str(caught.value)


def test_full_shared_memory_is_told_with_size_and_remedy() -> None:
    for message in run_ranks(full_shared_memory, 2):
        assert "cannot reserve" in message
        assert "MiB of shared memory" in message
        assert "--shm-size" in message
