"""Ranks tell where they are through memory that they inherit."""

import os
import struct

import pytest

from tnt_launch.running.progress import Progress, ProgressBoard


@pytest.fixture
def board():
    board = ProgressBoard(2)
    yield board
    board.close()


def test_each_rank_has_an_entry_of_its_own(board):
    (fd,) = board.descriptors
    os.pwrite(fd, struct.pack("<qq", 3, 120), 16)
    assert board.read(0) is None
    assert board.read(1) == Progress(3, 120)


def test_memory_that_a_rank_has_spoilt_tells_nothing(board):
    os.truncate(board.descriptors[0], 3)
    assert board.read(0) is None


def test_a_process_finds_the_descriptor_by_its_name(board):
    assert os.readlink(f"/proc/self/fd/{board.descriptors[0]}") == "/memfd:tnt-progress (deleted)"


def test_without_memory_nothing_is_told(monkeypatch):
    def refuse(name):
        raise OSError

    monkeypatch.setattr(os, "memfd_create", refuse)
    board = ProgressBoard(2)
    assert board.descriptors == ()
    assert board.read(0) is None
