"""TensorFlow's log lines are hidden below a level, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.output.router import OutputRouter
from tnt_launch.output.stream import TensorFlowLogFilter

FIRST = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
INFO = b"I0000 00:00:1795353152.863195   14333 port.cc:153] oneDNN custom operations are on.\n"
WARNING = INFO.replace(b"I0000", b"W0000")
ERROR = b"E0000 00:00:1795353152.1   1 cuda_executor.cc:9] failed call to cuInit: INTERNAL\n"
FATAL = ERROR.replace(b"E0000", b"F0000")
LOG = FIRST + INFO + WARNING + ERROR + FATAL
OTHERS = [
    b"I think so\n",
    b"I0000 00:00:1795353152.8 1 train.py:3] logged by Python\n",
    b"I1122 13:14:15.863195 14333 own.cc:1] another library\n",
    b"E\n",
    b"WARNING: All is well\n",
    b"\n",
    b"\r 50%|####  |",
    b"left " + INFO,
    b"Traceback (most recent call last):\n",
]


def filtered(data, min_level=3):
    stream = TensorFlowLogFilter(min_level)
    return stream.feed(data) + stream.finish()


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (0, LOG),
        (1, WARNING + ERROR + FATAL),
        (2, ERROR + FATAL),
        (3, FATAL),
    ],
)
def test_levels_are_those_of_tensorflow(level, shown):
    assert filtered(LOG, level) == shown


@pytest.mark.parametrize("level", [0, 1, 2])
def test_that_cuda_finds_no_gpu_is_no_error_of_a_rank_without_one(level):
    dated = b"2026-01-02 03:04:05.067890: E external/xla/cuda/cuda_driver.cc:152] "
    missing = ERROR + dated + b"failed call to cuInit: CUDA_ERROR_NO_DEVICE\n"
    others = dated + b"failed to allocate 1 KiB\n2026 epochs\n"
    filter_ = TensorFlowLogFilter(level, has_gpu=False)
    data = missing + FATAL + others
    shown = b"".join(filter_.feed(data[i : i + 1]) for i in range(len(data)))
    assert shown + filter_.finish() == FATAL + others
    assert filtered(missing, level) == missing


@pytest.mark.parametrize("line", OTHERS)
def test_other_lines_are_shown(line):
    assert filtered(line) == line
    assert filtered(INFO + line) == line


@given(
    lines=st.lists(st.sampled_from([FIRST, INFO, ERROR, *OTHERS])),
    cuts=st.lists(st.integers(0, 500)),
)
def test_the_same_is_shown_however_the_bytes_arrive(lines, cuts):
    data = b"".join(lines)
    stream, shown, begin = TensorFlowLogFilter(3), b"", 0
    for end in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        shown += stream.feed(data[begin:end])
        begin = end
    assert shown + stream.finish() == filtered(data)


def test_a_line_that_cannot_be_tensorflows_is_shown_at_once():
    stream = TensorFlowLogFilter(3)
    assert stream.feed(b"Password: ") == b"Password: "
    assert stream.feed(INFO) == INFO  # not at the beginning of a line
    assert stream.feed(INFO) == b""


def test_a_log_line_without_end_is_not_kept_for_ever():
    stream = TensorFlowLogFilter(3)
    data = INFO[:-1] + b"x" * 5000
    assert stream.feed(data) == data


def test_ranks_are_filtered_each_on_its_own():
    router, parts = OutputRouter(False, tensorflow_log_level=3), []
    router._err.sink.put = parts.append
    for rank in (0, 1):
        router.take(rank, "stderr", INFO[:20], 1.0)
    for rank in (0, 1):
        router.take(rank, "stderr", INFO[20:] + b"own\n", 1.0)
        router.finish_rank(rank, True, 1.0)
    assert b"".join(parts) == b"own\n[1] own\n"
    assert router.last_errors(1) == "own\n"
