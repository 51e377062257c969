"""Starts the launcher as a user would, on small scripts that need no TensorFlow."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import deadlines

import tnt_launch
from tnt_launch.running.board import ENTRY

LIMIT_S = deadlines.deadline_s(120)
"""Deadline of everything; a good launcher needs a second or two."""

ENDED_WITHIN_S = deadlines.deadline_s(30)
"""After the first failure or signal all is over within 3 s; a machine may be slow."""

PROLOGUE = """
import os, signal, sys, time
rank = int(os.environ["TNT_RANK"])
def announce(pid, name):
    with open(name + ".part", "w") as file:
        file.write(str(pid))
    os.rename(name + ".part", name)  # whoever sees the file sees all of it
announce(os.getpid(), f"pid-{rank}")
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""


class Launched:
    """A launcher in progress, with the files by which its ranks announce themselves."""

    def __init__(self, process, folder):
        self.process = process
        self.folder = folder

    def pid(self, name):
        """Process id that a rank announced, once it has."""
        wait_until((self.folder / name).exists)
        return int((self.folder / name).read_text())

    def pids(self, size):
        return [self.pid(f"pid-{rank}") for rank in range(size)]

    def end(self, within_s=LIMIT_S):
        """Wait for the end; returns exit code, stdout and stderr as text."""
        out, err = self.process.communicate(timeout=within_s)
        return self.process.returncode, (out or b"").decode(), (err or b"").decode()


def spawn(command, folder, variables=None):
    """Start a command in a folder, with pipes, where the launcher can be imported."""
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment() | (variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Tests in the background of a shell ignore Ctrl-C, under nohup SIGHUP; the launcher must
        # not, here.
        preexec_fn=listen_to_signals,
    )


def wait_until(condition, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def is_alive(pid):
    """Whether a process runs; one that is dead but not yet reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def listen_to_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)


def environment():
    """This process's environment without a job of its own, and with the launcher importable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TNT_")}
    files = (Path(tnt_launch.__file__).parent, Path(__file__), Path(deadlines.__file__))
    path = [*(str(file.parent) for file in files), kept.get("PYTHONPATH", "")]
    return {**kept, "PYTHONPATH": ":".join(filter(None, path))}


def tell(kind, text, cause_rank=None):
    """Tell the launcher of an error, and print it, as a rank with Tarantella does."""
    record = {"kind": kind, "text": text, "cause_rank": cause_rank, "time_s": time.monotonic()}
    data = json.dumps(record).encode()
    for name in os.listdir("/proc/self/fd"):
        if "memfd:tnt-board" in os.path.realpath(f"/proc/self/fd/{name}"):
            head = struct.pack("<qqi", 0, 0, len(data))
            os.pwrite(int(name), head + data, int(os.environ["TNT_LOCAL_RANK"]) * ENTRY)
    sys.stderr.write(f"Traceback (most recent call last):\n{kind}: {text}\n")
