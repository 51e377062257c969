"""The trace that `TNT_TIMELINE` asks for: complete, in order, and valid whatever happens."""

import contextlib
import os
import resource
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tnt_comm
from tnt_comm import CommError, FusionPlan, Gatherer, GradientReducer, TensorSpec
from tnt_comm.testing import Preloaded, Trace, observe_ranks, read_trace, run_ranks

STATES = ["ready", "started", "reduced", "finished"]
NUM_STEPS = 4
COUNTS = [10, 70_000, 1, 3000, 0, 40_000]


def environment(path: Path) -> dict[str, str]:
    return {"TNT_TIMELINE": str(path), "TNT_TIMEOUT_S": "30"}


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def train() -> None:
    """Steps with starts in a random order, finished by several threads."""
    dtypes = ("float32", "float64")
    specs = [TensorSpec(f"v{i}", dtypes[i % 2], n) for i, n in enumerate(COUNTS)]
    reducer = GradientReducer(FusionPlan(specs, 8000), name="g", phase="backpropagation")
    gatherer = Gatherer("rows")
    order = np.random.default_rng(tnt_comm.get_rank())
    for _ in range(NUM_STEPS):
        with tnt_comm.timeline.span("step"):
            for i in order.permutation(len(COUNTS)):
                reducer.start(int(i), np.ones(COUNTS[i], dtypes[i % 2]))
            gatherer.start(np.ones(3))
            threads = [
                threading.Thread(target=reducer.finish, args=(i,)) for i in range(len(COUNTS))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            gatherer.finish()
        tnt_comm.timeline.instant("step done")
    if tnt_comm.get_rank() == 1:
        time.sleep(0.3)
    tnt_comm.allreduce(np.ones(100_000))
    tnt_comm.Group().start_broadcast(np.ones(10)).wait()


def join_without_memory(lost: int) -> str:
    """One rank has no room for its timeline. Returns the error."""
    if tnt_comm.get_rank() == lost:
        status = Path("/proc/self/status").read_text()
        in_use = int(status.split("VmSize:")[1].split()[0]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 28 * 2**20, resource.RLIM_INFINITY))
    with pytest.raises(CommError) as caught:
        tnt_comm.init()
    return str(caught.value)


def state_times(trace: Trace, rank: int, bucket: str, step: int) -> dict[str, float]:
    found = [
        event
        for event in trace.find(category="bucket", rank=rank)
        if event.arguments["bucket"] == bucket and event.arguments["step"] == step
    ]
    assert sorted(event.name for event in found) == sorted(STATES)
    return {event.name: event.begin_us for event in found}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_bucket_of_every_step_is_ready_started_reduced_and_finished_in_this_order(
    tmp_path: Path, size: int, forks: Preloaded
) -> None:
    path = tmp_path / "trace.json"
    run_ranks(train, size, env=environment(path), preloaded=forks)
    assert files_in(tmp_path) == ["trace.json"]
    trace = read_trace(path)
    assert [rank["state"] for rank in trace.ranks] == ["complete"] * size
    assert [trace.processes[rank] for rank in range(size)] == [
        f"rank {rank} ({os.uname().nodename})" for rank in range(size)
    ]
    buckets = {event.arguments["bucket"] for event in trace.find(category="bucket")}
    assert buckets == {f"bucket {i} of 'g'" for i in range(len(buckets))}
    assert len(buckets) > 2
    for bucket in buckets:
        for step in range(NUM_STEPS):
            times = [state_times(trace, rank, bucket, step) for rank in range(size)]
            for time_of in times:
                assert [time_of[state] for state in STATES] == sorted(time_of.values())
            # Nobody can have the sum before everybody has packed: clocks agree on that.
            assert max(t["ready"] for t in times) <= min(t["reduced"] for t in times)


def test_marks_phases_waits_and_collectives_are_shown(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "trace.json"
    run_ranks(train, 2, env=environment(path), preloaded=forks)
    trace = read_trace(path)
    for rank in range(2):
        for name in ("step", "step done", "backpropagation", "gather"):
            assert len(trace.find(name, rank=rank)) == NUM_STEPS, name
        steps = trace.find("step", rank=rank)
        assert {event.row.partition(" ")[2] for event in steps} == {"main thread"}
        for step, phase in zip(steps, trace.find("backpropagation", rank=rank), strict=True):
            assert step.begin_us <= phase.begin_us <= phase.end_us <= step.end_us
        [allreduce] = trace.find("allreduce", rank=rank)
        assert allreduce.arguments == {"bytes": 800_000}
        assert allreduce.category == "collective"
        assert len(trace.find("broadcast", rank=rank)) == 1
    [wait] = trace.find("wait for allreduce", rank=0)  # for rank 1, which comes late
    [allreduce] = trace.find("allreduce", rank=0)
    assert allreduce.begin_us < wait.end_us
    assert wait.begin_us < allreduce.end_us <= wait.end_us


def die_between_steps() -> str:
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 10)], 0))
    for step in range(5):
        if step == 3 and tnt_comm.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        reducer.start(0, np.ones(10, np.float32))
        try:
            reducer.finish(0)
        except CommError as error:
            return str(error)
    return ""


def test_a_killed_rank_is_named_in_a_valid_trace_of_the_others(
    tmp_path: Path, forks: Preloaded
) -> None:
    path = tmp_path / "trace.json"
    reports = observe_ranks(
        die_between_steps, 3, env=environment(path), grace_s=20, preloaded=forks
    )
    assert [report.outcome for report in reports] == ["returned", "died", "returned"]
    assert files_in(tmp_path) == ["trace.json"]
    trace = read_trace(path)
    assert [rank["state"] for rank in trace.ranks] == ["complete", "started", "complete"]
    [mark] = trace.find(category="trace")
    assert (mark.rank, mark.name.partition(":")[0]) == (1, "no events of rank 1")
    for rank in (0, 2):
        # Three whole steps, and the one that could not be completed.
        assert len(trace.find("finished", rank=rank)) == 3
        assert len(trace.find("started", rank=rank)) == 4
        assert len(trace.find("failed", rank=rank)) == 1


def compute_while_another_rank_dies(path: str) -> None:
    """Rank 0 is killed too, but only after it has seen what became of rank 1."""
    tnt_comm.barrier()
    with tnt_comm.timeline.span("compute"):
        if tnt_comm.get_rank() == 0:
            deadline = time.monotonic() + 20
            while not Path(path).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_rank_that_sees_a_failure_writes_before_it_may_be_ended_too(
    tmp_path: Path, forks: Preloaded
) -> None:
    path = tmp_path / "trace.json"
    reports = observe_ranks(
        compute_while_another_rank_dies,
        2,
        str(path),
        env=environment(path),
        grace_s=25,
        preloaded=forks,
    )
    assert [report.outcome for report in reports] == ["died", "died"]
    trace = read_trace(path)
    assert [rank["state"] for rank in trace.ranks] == ["partial", "started"]
    [slice_] = trace.find("compute")
    assert slice_.arguments == {"unfinished": True}
    # Nobody was left to remove them; each is a trace of its own.
    assert len(read_trace(f"{path}.rank0").find("compute")) == 1
    tnt_comm.timeline.merge(path)
    assert files_in(tmp_path) == ["trace.json"]
    assert read_trace(path) == trace_without_marks_of_time(trace, read_trace(path))


def trace_without_marks_of_time(expected: Trace, other: Trace) -> Trace:
    """`expected`, with the marks of `other`, whose time is that of the merge."""
    events = [event for event in expected.events if event.category != "trace"]
    return Trace(expected.ranks, expected.processes, (*events, *other.find(category="trace")))


def raise_on_one_rank() -> None:
    tnt_comm.barrier()
    if tnt_comm.get_rank() == 1:
        raise ZeroDivisionError
    with contextlib.suppress(CommError):
        tnt_comm.allreduce(np.ones(3))


def test_a_rank_that_raises_leaves_its_whole_part(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "trace.json"
    observe_ranks(raise_on_one_rank, 2, env=environment(path), grace_s=20, preloaded=forks)
    trace = read_trace(path)
    assert [rank["state"] for rank in trace.ranks] == ["complete", "complete"]
    [failed] = trace.find("failed")
    assert failed.rank == 0


def record_too_much() -> None:
    tnt_comm.init()
    for _ in range(1_050_000):
        tnt_comm.timeline.instant("tick")


def test_a_full_timeline_says_what_is_missing(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "trace.json"
    [report] = observe_ranks(record_too_much, 1, env=environment(path), preloaded=forks)
    assert report.outcome == "returned"
    assert report.output.count("is full after 1048576 events") == 1
    text = path.read_text()
    assert text.count('"name":"tick"') == 1_048_576
    assert "the last 1424 events of rank 0 are missing" in text
    assert '"dropped_events":1424' in text


def report_error_of_init() -> str:
    try:
        tnt_comm.init()
    except ValueError as error:
        return str(error)
    return ""


def test_a_path_that_cannot_be_written_is_an_error_at_the_start(
    tmp_path: Path, forks: Preloaded
) -> None:
    [message] = run_ranks(
        report_error_of_init, 1, env=environment(tmp_path / "no" / "t.json"), preloaded=forks
    )
    assert "TNT_TIMELINE=" in message
    assert "no/t.json" in message
    [message] = run_ranks(report_error_of_init, 1, env=environment(tmp_path), preloaded=forks)
    assert "it is a folder" in message


def test_a_link_stays_and_the_trace_is_where_it_leads(tmp_path: Path, forks: Preloaded) -> None:
    (tmp_path / "target.json").write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to("target.json")
    run_ranks(train, 2, env=environment(link), preloaded=forks)
    assert link.is_symlink()
    assert files_in(tmp_path) == ["link.json", "target.json"]
    assert len(read_trace(tmp_path / "target.json").ranks) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_a_link_of_another_user_is_refused(tmp_path: Path, forks: Preloaded) -> None:
    """In a folder where all may write it could lead to any file of this user."""
    (tmp_path / "precious").write_text("data")
    link = tmp_path / "link.json"
    link.symlink_to("precious")
    os.chown(link, 12345, 12345, follow_symlinks=False)
    (tmp_path / "own.json").symlink_to("link.json")
    for name in ("link.json", "own.json"):
        [message] = run_ranks(
            report_error_of_init, 1, env=environment(tmp_path / name), preloaded=forks
        )
        assert f"the link '{link}' belongs to user 12345" in message
    assert (tmp_path / "precious").read_text() == "data"


def test_files_of_the_user_beside_the_trace_stay(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "t.json.lock").touch()
    (tmp_path / "t.json.ranks.lock").write_text("data")
    (tmp_path / "t.json.rank2").write_text("of no rank of this job")
    before = files_in(tmp_path)
    run_ranks(train, 2, env=environment(path), preloaded=forks)
    assert files_in(tmp_path) == before
    assert len(read_trace(path).ranks) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_part_replaces_nothing_but_a_part(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "t.json"
    (tmp_path / "t.json.rank0").write_text("data")
    [message] = run_ranks(report_error_of_init, 1, env=environment(path), preloaded=forks)
    assert f"the file '{path}.rank0', where this rank would write, is not part" in message
    assert (tmp_path / "t.json.rank0").read_text() == "data"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path, forks: Preloaded) -> None:
    device = tmp_path / "null"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    run_ranks(train, 2, env=environment(device), preloaded=forks)
    assert device.is_char_device()
    assert files_in(tmp_path) == ["null"]


def test_who_reads_a_pipe_gets_the_trace(tmp_path: Path, forks: Preloaded) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that the trace finds a reader
    os.set_blocking(reader, True)
    received = tmp_path / "received.json"

    def copy() -> None:
        with received.open("wb") as file:
            while wait_for_bytes(reader) and (part := os.read(reader, 65536)):
                file.write(part)

    thread = threading.Thread(target=copy)
    thread.start()
    run_ranks(train, 2, env=environment(pipe), preloaded=forks)
    thread.join(60)
    os.close(reader)
    assert pipe.is_fifo()
    assert len(read_trace(received).ranks) == 2


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
def test_a_pipe_may_be_named_as_a_descriptor(name: str, tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TNT_")}
    done = subprocess.run(
        [sys.executable, "-c", "import tnt_comm; tnt_comm.barrier()"],
        env={**env, "TNT_TIMELINE": name, "TMPDIR": str(tmp_path)},
        capture_output=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "received.json").write_bytes(done.stdout)
    assert len(read_trace(tmp_path / "received.json").ranks) == 1
    assert files_in(tmp_path) == ["received.json"]


def wait_for_bytes(file: int) -> bool:
    """Wait until there is something to read, or somebody has written and left."""
    return bool(select.select([file], [], [], 60)[0])


def test_a_pipe_without_a_reader_is_a_warning_and_holds_up_nobody(
    tmp_path: Path, forks: Preloaded
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reports = observe_ranks(train, 2, env=environment(tmp_path / "pipe"), preloaded=forks)
    assert {report.exit_code for report in reports} == {0}
    assert "timeline (TNT_TIMELINE) is not complete" in "".join(report.output for report in reports)
    assert files_in(tmp_path) == ["pipe"]


def mark_after_the_end() -> bool:
    assert not tnt_comm.timeline.is_on()
    tnt_comm.timeline.begin("too early")
    tnt_comm.init()
    assert tnt_comm.timeline.is_on()
    os.chdir("/")
    tnt_comm.finalize()
    tnt_comm.timeline.instant("too late")
    return not tnt_comm.timeline.is_on()


def test_marks_outside_of_the_job_do_nothing(tmp_path: Path, forks: Preloaded) -> None:
    path = tmp_path / "trace.json"
    # A relative path stays where the program was started.
    relative = os.path.relpath(path)
    env = environment(Path(relative))
    assert run_ranks(mark_after_the_end, 1, env=env, preloaded=forks) == [True]
    names = {event.name for event in read_trace(path).events}
    assert names.isdisjoint({"too early", "too late"})


def test_without_the_variable_nothing_is_recorded(forks: Preloaded) -> None:
    [report] = observe_ranks(train, 1, preloaded=forks)
    assert report.outcome == "returned"
    assert not tnt_comm.timeline.is_on()


def test_a_rank_without_memory_for_its_timeline_says_so_to_all(tmp_path: Path) -> None:
    env = environment(tmp_path / "trace.json")
    reports = observe_ranks(join_without_memory, 2, 1, env=env, timeout_s=60, grace_s=60)
    for report in reports:
        assert report.outcome == "returned", report.full_text()
        assert "rank 1: no memory for the 32 MiB of its timeline" in report.value
    assert "unset TNT_TIMELINE" in reports[1].value
