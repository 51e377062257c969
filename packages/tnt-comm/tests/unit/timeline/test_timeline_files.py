"""Parts of a trace: how records become one, where they lie, and how they are joined."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tnt_comm import CommError, timeline
from tnt_comm.testing import read_trace
from tnt_comm.timeline.files import (
    TracePaths,
    merge_parts,
    require_place,
    trace_paths,
    write_atomically,
)
from tnt_comm.timeline.render import RECORDS_HEAD, microseconds, process_mark, render_part

BEGIN, END, STATE, INSTANT = range(4)


def packed(text: bytes) -> bytes:
    return struct.pack("=I", len(text)) + text


def records_of(
    *events: tuple[int, int], rank: int = 0, size: int = 1, names: tuple[bytes, ...] = (b"outer",)
) -> bytes:
    """What C++ gives of a rank with one thread: events (kind, name), a microsecond apart."""
    origin = struct.pack("=iiqqqQ", rank, size, 0, 0, 0, 0)
    row = struct.pack("=qQ", 17, 0) + b"".join(map(packed, (b"main thread", b"thread", b"", b"")))
    head = [RECORDS_HEAD, origin, packed(b"h"), struct.pack("=I", 1), row]
    head += [struct.pack("=I", len(names)), *map(packed, names)]
    written = [
        struct.pack("=qQIIB7x", 1000 * time, 0, 0, name, kind)
        for time, (kind, name) in enumerate(events)
    ]
    return b"".join([*head, *written])


def write_part(paths: TracePaths, rank: int, size: int, state: str) -> None:
    write_atomically(paths.part_of(rank), render_part(records_of(rank=rank, size=size), state))


@pytest.fixture
def paths(tmp_path: Path) -> TracePaths:
    path = str(tmp_path / "trace.json")
    return TracePaths(path, path)


def files_beside(paths: TracePaths) -> list[str]:
    return sorted(os.listdir(Path(paths.path).parent))


def states_in(paths: TracePaths) -> list[str]:
    return [rank["state"] for rank in read_trace(paths.path).ranks]


def test_slices_end_with_their_own_end_and_open_ones_are_marked(paths: TracePaths) -> None:
    outer, inner = 0, 1
    events = [(END, inner), (BEGIN, outer), (BEGIN, inner), (END, outer), (BEGIN, inner)]
    part = render_part(records_of(*events, names=(b"outer", b"inner")), "complete")
    write_atomically(paths.path, part)
    trace = read_trace(paths.path)
    assert trace.processes == {0: "rank 0 (h)"}
    [whole] = trace.find("outer")
    assert (whole.arguments, whole.begin_us, whole.end_us) == ({}, 1.0, 3.0)
    assert [e.arguments for e in trace.find("inner")] == [{"unfinished": True}] * 2


def test_a_state_lasts_until_the_next_one_or_an_instant(paths: TracePaths) -> None:
    events = [(STATE, 0), (STATE, 1), (INSTANT, 2)]
    part = render_part(records_of(*events, names=(b"ready", b"started", b"end")), "complete")
    write_atomically(paths.path, part)
    times = [(e.name, e.begin_us, e.end_us) for e in read_trace(paths.path).events]
    assert sorted(times) == [("end", 2.0, 2.0), ("ready", 0.0, 1.0), ("started", 1.0, 2.0)]


@pytest.mark.parametrize(
    "name", [b'a "b" \\', b"line\n\x01", "\u00e9 \u20ac \U0001f642".encode(), b"\xc3(", b"\xe2\x82"]
)
def test_names_may_hold_any_bytes(name: bytes) -> None:
    trace = json.loads(render_part(records_of((INSTANT, 0), names=(name,)), "complete"))
    assert trace["traceEvents"][-1]["name"] == name.decode("utf-8", "replace")


def test_times_are_microseconds() -> None:
    assert '"ts":1234.567,' in process_mark(0, 1_234_567, "m")
    assert microseconds(-5) == "-0.005"


def test_parts_are_removed_once_no_rank_writes_any_more(paths: TracePaths) -> None:
    write_part(paths, 0, 2, "complete")
    write_part(paths, 1, 2, "partial")
    merge_parts(paths, 2, 0, has_ended=False)
    assert len(files_beside(paths)) == 4  # trace, two parts and the lock
    merge_parts(paths, 2, 0, has_ended=True)
    assert files_beside(paths) == ["trace.json"]
    before = Path(paths.path).read_bytes()
    merge_parts(paths, 2, 0, has_ended=True)  # by a rank that thought itself the last one too
    assert Path(paths.path).read_bytes() == before
    assert files_beside(paths) == ["trace.json"]


def test_ranks_without_events_are_named_in_the_trace(paths: TracePaths) -> None:
    write_part(paths, 0, 3, "complete")
    write_part(paths, 2, 3, "started")
    merge_parts(paths, 3, 0, has_ended=True)
    assert states_in(paths) == ["complete", "missing", "started"]
    marks = read_trace(paths.path).find(category="trace")
    assert [(m.rank, m.name.partition(":")[0]) for m in marks] == [
        (1, "no events of rank 1"),
        (2, "no events of rank 2"),
    ]


def test_a_damaged_part_is_a_missing_one(paths: TracePaths) -> None:
    write_part(paths, 0, 2, "complete")
    Path(paths.part_of(1)).write_text('{"displayTimeUnit":"ms",')
    merge_parts(paths, 2, 0, has_ended=True)
    assert states_in(paths) == ["complete", "missing"]


def test_parts_that_are_links_are_not_read(paths: TracePaths, tmp_path: Path) -> None:
    write_part(paths, 0, 2, "complete")
    (tmp_path / "elsewhere").write_bytes(Path(paths.part_of(0)).read_bytes())
    Path(paths.part_of(1)).symlink_to(tmp_path / "elsewhere")
    merge_parts(paths, 2, 0, has_ended=True)
    assert states_in(paths) == ["complete", "missing"]


def test_parts_are_not_joined_under_a_lock_that_is_a_link(
    paths: TracePaths, tmp_path: Path
) -> None:
    write_part(paths, 0, 1, "complete")
    (tmp_path / "trace.json.ranks.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(CommError):
        merge_parts(paths, 1, 0, has_ended=True)
    assert not (tmp_path / "precious").exists()


def test_parts_of_a_device_are_joined_once_and_leave_nothing(paths: TracePaths) -> None:
    write_part(paths, 0, 1, "complete")
    device = TracePaths("/dev/null", paths.parts, is_replaced=False)
    merge_parts(device, 1, 0, has_ended=False)
    assert len(files_beside(paths)) == 1
    merge_parts(device, 1, 0, has_ended=True)
    assert files_beside(paths) == []
    assert Path("/dev/null").is_char_device()


def test_parts_lie_among_temporary_files_if_the_trace_is_no_regular_file(tmp_path: Path) -> None:
    device = trace_paths("/dev/null", "job")
    assert (device.path, device.is_replaced) == ("/dev/null", False)
    assert device.parts.endswith("tnt-timeline-job")
    with pytest.raises(ValueError, match="it is a folder"):
        trace_paths(str(tmp_path), "job")


def test_parts_are_beside_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/target.json")
    for exists in (False, True):
        if exists:
            (tmp_path / "deep/target.json").write_text("old")
        target = str(tmp_path / "deep/target.json")
        assert trace_paths(str(tmp_path / "link"), "job") == TracePaths(target, target)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ValueError, match="leads to itself"):
        trace_paths(str(tmp_path / "round"), "job")


def test_a_part_replaces_nothing_but_a_part(paths: TracePaths) -> None:
    write_part(paths, 0, 1, "complete")
    require_place(paths, 0)
    Path(paths.part_of(0)).write_text("data")
    with pytest.raises(ValueError, match="is not part"):
        require_place(paths, 0)


def test_what_a_job_has_left_is_joined_by_the_command(paths: TracePaths) -> None:
    command = [sys.executable, "-m", "tnt_comm.timeline", paths.path]
    Path(paths.part_of(0)).write_bytes(records_of((INSTANT, 0), rank=0, size=3))  # not of Python
    write_part(paths, 1, 3, "partial")
    subprocess.run(command, check=True, timeout=110)
    assert states_in(paths) == ["complete", "partial", "missing"]
    assert files_beside(paths) == ["trace.json"]
    done = subprocess.run(command, timeout=110, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing to merge" in done.stderr
    assert "Traceback" not in done.stderr


def test_merge_without_parts_is_an_error(paths: TracePaths) -> None:
    with pytest.raises(ValueError, match="nothing to merge"):
        timeline.merge(paths.path)


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CommError, match=r"missing/trace\.json"):
        write_atomically(str(tmp_path / "missing" / "trace.json"), "")
