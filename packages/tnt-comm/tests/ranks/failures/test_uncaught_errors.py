"""An error that ends the program of a rank is told to the others, and on its stderr."""

import os
import textwrap

import pytest
from engines import LOOPBACK, UCX
from program_on_ranks import ONE_HOST, run_program
from ucx_found import needs_ucx

from tnt_comm.testing.placement import Host

PROLOGUE = """
import os, sys, time
import tnt_comm
rank = tnt_comm.get_rank()
tnt_comm.barrier()
"""
FAIL = """
if rank == 1:
    raise LookupError("no such record")
tnt_comm.barrier()
"""
SENTENCE = "job.py:8: LookupError: no such record"


def run_after_start(folder, program, hosts=ONE_HOST, engine=None):
    """Run a program on ranks that have met before; return their exit codes and stderr."""
    return run_program(folder, PROLOGUE + program, hosts, engine)


@pytest.mark.parametrize(
    ("hosts", "engine"),
    [(ONE_HOST, {}), pytest.param((Host(1), Host(1)), {**UCX, **LOOPBACK}, marks=needs_ucx)],
    ids=["one host", "two hosts"],
)
def test_the_last_line_tells_the_error_and_the_others_quote_it(tmp_path, hosts, engine):
    codes, (other, own) = run_after_start(tmp_path, FAIL, hosts, engine)
    assert codes == [1, 1]
    *_, error, last = own.splitlines()
    assert error == "LookupError: no such record"
    assert last == f"tarantella: rank 1 on {os.uname().nodename} has failed: {SENTENCE}"
    last = other.splitlines()[-1]
    assert f"which has failed: {SENTENCE}." in last
    assert " has failed, a consequence of rank 1: job.py:9: tnt_comm.errors.PeerLostError" in last


def test_the_others_are_told_before_the_process_has_ended(tmp_path):
    program = """
if rank == 1:
    import atexit
    def wait():
        while not os.path.exists("told"):
            time.sleep(0.01)
    atexit.register(wait)
    raise LookupError("no such record")
try:
    tnt_comm.barrier()
except tnt_comm.PeerLostError as error:
    assert error.cause_rank == 1
    open("told", "w").close()
"""
    codes, _ = run_after_start(tmp_path, program)
    assert codes == [0, 1]


@pytest.mark.parametrize(
    "program",
    [
        "try:\n    raise LookupError\nexcept LookupError:\n    sys.exit(3 * rank)",
        "if rank == 1 and os.fork() == 0:\n    raise LookupError\nos.wait() if rank else 0\n"
        "tnt_comm.barrier()\nsys.exit(3 * rank)",
    ],
    ids=["caught", "of a fork"],
)
def test_an_error_that_is_caught_or_of_another_process_is_none_of_the_rank(tmp_path, program):
    codes, told = run_after_start(tmp_path, program)
    assert codes == [0, 3]
    assert "has failed" not in "".join(told)


EXIT = """
def leave():
    try:
        raise KeyError("found nothing")
    except KeyError:
        sys.exit("no such record")
if rank == 1:
    leave()
tnt_comm.barrier()
"""


def test_a_text_to_sys_exit_is_an_error_with_the_line_that_calls_it(tmp_path):
    codes, (other, own) = run_after_start(tmp_path, EXIT)
    assert codes == [1, 1]
    *_, told, last = own.splitlines()
    place = "job.py:11: SystemExit: no such record"
    assert told == f"tarantella: rank 1 on {os.uname().nodename} has failed: {place}"
    assert last == "no such record"
    assert f"which has failed: {place}." in other.splitlines()[-1]


def test_a_text_to_sys_exit_after_an_error_of_another_rank_is_a_consequence(tmp_path):
    program = """
if rank == 1:
    raise LookupError
try:
    tnt_comm.barrier()
except tnt_comm.PeerLostError:
    pass
sys.exit("cannot go on")
"""
    _, (own, _) = run_after_start(tmp_path, program)
    told = "has failed, a consequence of rank 1: job.py:13: SystemExit: cannot go on"
    assert told in own


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("try:\n    sys.exit('no')\nexcept SystemExit as exit:\n    assert exit.code == 'no'", 0),
        ("try:\n    sys.exit('no')\nexcept SystemExit as exit:\n    exit.code = 4; raise", 4),
        ("import threading\none = threading.Thread(target=sys.exit, args=['no'])\none.start()", 0),
        ("if os.fork() == 0:\n    sys.exit('no')\nos.wait()", 0),
        ("sys.exit()", 0),
        ("sys.exit((5,))", 5),
    ],
    ids=["caught", "another code", "of a thread", "of a fork", "nothing", "a number"],
)
def test_what_is_no_exit_with_a_text_is_none_of_the_rank(tmp_path, program, code):
    codes, told = run_after_start(tmp_path, "if rank == 1:\n" + textwrap.indent(program, "    "))
    assert codes == [0, code]
    assert "has failed" not in "".join(told)


def test_a_script_may_put_a_function_of_its_own_in_the_place_of_the_hook(tmp_path):
    program = "sys.excepthook = lambda *_: print('mine', file=sys.stderr)" + FAIL
    _, (other, own) = run_after_start(tmp_path, program)
    assert own.splitlines()[0] == "mine"
    assert own.splitlines()[-1].endswith(SENTENCE)
    assert f"which has failed: {SENTENCE}." in other


def test_a_hook_that_was_there_before_shows_the_error(tmp_path):
    program = "sys.excepthook = lambda *_: print('mine', file=sys.stderr)\n"
    (tmp_path / "sitecustomize.py").write_text("import sys\n" + program)
    os.environ["PYTHONPATH"], old = str(tmp_path), os.environ.get("PYTHONPATH", "")
    try:
        _, (_, own) = run_after_start(tmp_path, FAIL)
    finally:
        os.environ["PYTHONPATH"] = old
    assert own.splitlines()[0] == "mine"
    assert own.splitlines()[-1].endswith(SENTENCE)


def test_errors_name_the_rank_whose_call_is_another_one(tmp_path):
    program = """
try:
    tnt_comm.barrier(label=f"call of rank {rank}")
except tnt_comm.MismatchError as error:
    sys.exit(10 + error.cause_rank)
"""
    codes, _ = run_after_start(tmp_path, program)
    assert codes == [11, 10]
