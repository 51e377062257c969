"""The launcher can read where a rank is in its training."""

import os
import struct

import pytest

from tnt_keras.process import progress


@pytest.fixture(autouse=True)
def forget_memory():
    """Each test looks for the memory anew."""
    progress._writer.cache_clear()
    yield
    progress._writer.cache_clear()


def make_memory(size):
    fd = os.memfd_create("tnt-progress")
    os.ftruncate(fd, size)
    return fd


def test_the_place_is_written_where_the_launcher_reads_it(monkeypatch):
    monkeypatch.setattr(progress, "get_local_rank", lambda: 1)
    fd = make_memory(48)
    try:
        progress.note_progress(3, 120)
        assert os.pread(fd, 48, 0) == bytes(16) + struct.pack("<qq", 3, 120) + bytes(16)
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 8])
def test_memory_without_a_place_for_this_rank_is_left_alone(size):
    fd = make_memory(size)
    try:
        progress.note_progress(3, 120)
        assert os.pread(fd, 16, 0) == bytes(size)
    finally:
        os.close(fd)


def test_without_a_launcher_nothing_is_written():
    progress.note_progress(1, 1)
    assert progress._writer() is progress._tell_nobody
