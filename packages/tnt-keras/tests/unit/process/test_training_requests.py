"""What a process does at a signal by which a scheduler announces the end of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

BEGIN = """
import faulthandler, os, signal, sys, time
from tnt_keras.process import training_requests as requests

def send(number):
    os.kill(os.getpid(), number)

def default_of(number):
    return signal.getsignal(number) is signal.SIG_DFL
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program, without a launcher, that has imported what is tested."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TNT_")}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_signal_is_noted_and_others_change_nothing() -> None:
    program = """
requests.listen()
for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1):
    send(number)
print(requests.own_requests(), requests.asked_by(), requests.takes_backup())
"""
    assert run(program).stdout == f"({signal.SIGUSR2:d}, 0) {signal.SIGUSR2:d} True\n"


def test_a_backup_is_taken_once_for_each_request() -> None:
    program = """
requests.request_backup()
print(requests.takes_backup(), requests.takes_backup(), requests.asked_by())
"""
    assert run(program).stdout == "True False 0\n"


def test_handlers_of_a_script_are_left_alone() -> None:
    program = """
signal.signal(signal.SIGTERM, lambda *_: print("of the script"))
faulthandler.register(signal.SIGUSR1)
requests.listen()
send(signal.SIGTERM)
send(signal.SIGUSR1)
print(requests.own_requests())
"""
    done = run(program)
    assert done.stdout == "of the script\n(0, 0)\n"
    assert "most recent call first" in done.stderr


def test_a_process_of_its_own_listens_only_while_there_is_a_backup_to_save() -> None:
    program = """
with requests.listening(has_backup=False) as is_listening:
    print(is_listening, default_of(signal.SIGTERM))
with requests.listening(has_backup=True) as is_listening:
    print(is_listening, default_of(signal.SIGTERM))
print(default_of(signal.SIGTERM))
"""
    assert run(program).stdout == "False True\nTrue False\nTrue\n"


def test_a_process_that_a_listening_one_forks_ends_by_the_signal() -> None:
    program = """
requests.listen()
child = os.fork()
if child == 0:
    send(signal.SIGTERM)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), requests.own_requests())
"""
    assert run(program).stdout == f"{-signal.SIGTERM} (0, 0)\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_process_without_launcher_ends_itself_when_its_time_is_over(number: int) -> None:
    program = f"requests.listen()\nsend({number:d})\ntime.sleep(50)"
    done = run(program, TNT_GRACE_S="0.2")
    assert done.returncode == 128 + number
    assert f"{signal.Signals(number).name} came 0.2 s ago (TNT_GRACE_S)" in done.stderr


SIGNAL_AT_THE_END = """
import os, signal
from tnt_keras.process import training_requests


class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)


kept = Late()  # until Python has taken its handlers away
training_requests.listen()
"""


def test_a_signal_after_the_end_of_the_script_changes_no_exit_code():
    done = subprocess.run([sys.executable, "-c", SIGNAL_AT_THE_END], timeout=100, check=False)
    assert done.returncode == 0
