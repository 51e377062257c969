"""Ranks tell where they are, and how they have failed, through memory that they inherit."""

import json
import os
import struct

import pytest

from tnt_launch.running.board import ENTRY, Board, Entry, Failure, from_fields, to_fields

FAILURE = Failure("ValueError", "no", "/work/train.py", 12, 3, 100.5)


@pytest.fixture
def board():
    board = Board(2)
    yield board
    board.close()


def write(board, local_rank, record, epoch=0, step=0):
    head = struct.pack("<qqi", epoch, step, len(record))
    os.pwrite(board.descriptors[0], head + record, local_rank * ENTRY)


def test_each_rank_has_an_entry_of_its_own(board):
    write(board, 1, json.dumps(vars(FAILURE)).encode(), 3, 120)
    assert board.read(0) == Entry()
    assert board.read(1) == Entry(3, 120, FAILURE)
    assert board.read(1).position == "in epoch 3, step 120"
    assert board.read(0).position == ""


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"rank": 1}', b"\xff"])
def test_a_record_that_is_none_tells_nothing(board, record):
    write(board, 0, record, 1)
    assert board.read(0) == Entry(epoch=1)


def test_memory_that_a_rank_has_spoilt_tells_nothing(board):
    os.truncate(board.descriptors[0], 3)
    assert board.read(0) == Entry()


def test_a_process_finds_the_descriptor_by_its_name(board):
    assert os.readlink(f"/proc/self/fd/{board.descriptors[0]}") == "/memfd:tnt-board (deleted)"


def test_without_memory_nothing_is_told(monkeypatch):
    def refuse(name):
        raise OSError

    monkeypatch.setattr(os, "memfd_create", refuse)
    board = Board(2)
    assert board.descriptors == ()
    assert board.read(0) == Entry()


@pytest.mark.parametrize("failure", [FAILURE, None])
def test_an_entry_travels_to_a_host_with_another_clock(failure):
    sent = json.loads(json.dumps(to_fields(Entry(3, 120, failure, True), now=101.0)))
    arrived = from_fields(**sent, now=7.0)
    assert (arrived.epoch, arrived.step) == (3, 120)
    if failure is None:
        assert arrived.failure is None
    else:
        assert vars(arrived.failure) == {**vars(failure), "time_s": 6.5}
