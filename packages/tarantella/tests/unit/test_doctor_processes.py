"""What the processes of `tarantella doctor` tell, and what becomes of those that hang or crash."""

import json
import os
import sys
import time
from importlib import metadata

import pytest

import tnt_comm
from tarantella.doctor import device_check
from tarantella.doctor.child import run_check
from tarantella.doctor.links import pairs_of
from tarantella.doctor.machine import (
    tell_hardware,
    tell_limits,
    tell_networks,
    tell_shared_memory,
)
from tarantella.doctor.software import tell_packages, tell_python
from tarantella.doctor.tell import attempt, tell
from tnt_launch.planning.gpu_drivers import Gpu
from tnt_launch.planning.visible_gpus import FoundGpus


@pytest.fixture
def told(capfd):
    """A function that returns the lines that were told since its last call."""
    return lambda: [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def run_python(program, limit_s=60.0):
    run_check("thing", [sys.executable, "-c", program], limit_s, os.environ)


BEGIN = {"doctor": "begin", "check": "thing"}


def failure(why):
    return {"doctor": "fact", "about": "failure", "values": {"check": "thing", "why": why}}


def test_a_check_that_ends_tells_for_itself(told):
    run_python("from tarantella.doctor.tell import tell; tell('thing', size=2)")
    assert told() == [BEGIN, {"doctor": "fact", "about": "thing", "values": {"size": 2}}]


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit(3)", "it ended with exit code 3"),
        ("import sys; sys.exit('one\\n\\ntwo')", "it ended with exit code 1: one two"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "it was killed by SIGILL"),
    ],
)
def test_a_check_that_fails_is_told(told, program, why):
    run_python(program)
    assert told() == [BEGIN, failure(why)]


def test_a_check_that_hangs_is_ended_with_what_it_has_started(told, tmp_path):
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    program = f"""
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
with open({str(tmp_path / "pid")!r}, "w") as file: file.write(str(child.pid))
{ignoring}
time.sleep(600)
"""
    begin_s = time.monotonic()
    run_python(program, limit_s=2.0)
    assert time.monotonic() - begin_s < 60
    assert told() == [BEGIN, failure("it did not end within 2 s")]
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):  # or it waits for whoever takes over orphans
        _raise_unless_it_runs(pid)


def _raise_unless_it_runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        raise ProcessLookupError from None
    if state in "ZX":
        raise ProcessLookupError


def test_what_cannot_be_looked_at_is_told(told):
    def look():
        raise OSError("no driver")

    assert not attempt("thing", look)
    assert told() == [BEGIN, failure("OSError: no driver")]
    assert attempt("thing", lambda: tell("thing"))
    assert len(told()) == 2


def test_software_is_told(told):
    tell_python()
    tell_packages()
    python, packages = (line["values"] for line in told())
    assert python["path"] == sys.executable
    assert python["required"].count("3.") == 2
    assert packages["installed"]["tnt-launch"]
    assert "tnt-comm" in packages["required"]["tarantella"]
    assert packages["required"]["tnt-keras"]["keras"].count(">=") == 1
    assert "tensorflow" in packages["required"]["tnt-keras"]


def test_the_machine_is_told(told):
    for look in (tell_hardware, tell_shared_memory, tell_limits, tell_networks):
        look()
    facts = {line["about"]: line["values"] for line in told()}
    assert 1 <= facts["cores"]["usable"] <= facts["cores"]["cpus"]
    assert isinstance(facts["gpus"]["gpus"], list)
    assert isinstance(facts["gpus"]["driver"], str)
    assert facts["gpus"]["remark"] == ""
    assert 0 < facts["shared_memory"]["free"] <= facts["shared_memory"]["total"]
    assert set(facts["limits"]) == {"is_root", "open_files", "processes", "locked_memory"}
    assert ["lo", "127.0.0.1"] in facts["networks"]["addresses"]


def test_gpus_are_told_with_their_places(told, monkeypatch):
    found = FoundGpus((Gpu("1", "GPU-a", "A", "0000:3b:00.0", 0),), "NAME=1,9", "9 is no GPU")
    monkeypatch.setattr("tnt_launch.planning.host_facts.find_gpus", lambda seen, stated: found)
    monkeypatch.setattr("tarantella.doctor.machine.driver_version", lambda: "NVIDIA 580.65.06")
    tell_hardware()
    _, line = told()
    assert line["values"] == {
        "gpus": [
            {"name": "1", "uuid": "GPU-a", "model": "A", "pci": "0000:3b:00.0", "node": 0},
        ],
        "driver": "NVIDIA 580.65.06",
        "remark": "9 is no GPU",
    }


def test_what_tnt_comm_knows_of_gpus_is_told_or_that_it_is_older(told, monkeypatch):
    known = {"is_available": False, "reason": "There is no driver.", "devices": []}
    monkeypatch.setattr(tnt_comm, "describe_devices", lambda: known, raising=False)
    device_check.main()
    monkeypatch.delattr(tnt_comm, "describe_devices")
    device_check.main()
    newer, older = (line["values"] for line in told())
    assert newer == known
    assert older == {"lacking": metadata.version("tnt-comm")}


def test_shared_memory_that_is_not_there_is_told(told, monkeypatch):
    monkeypatch.setattr("tarantella.doctor.machine.SHARED_MEMORY", "/nowhere")
    tell_shared_memory()
    (line,) = told()
    assert line["values"] == {"why": "No such file or directory"}


@pytest.mark.parametrize(
    ("size", "pairs"),
    [
        (2, [(0, 1)]),
        (3, [(0, 1), (0, 2), (1, 2)]),
        (5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    ],
)
def test_pairs_of_hosts_are_all_or_neighbours_in_a_ring(size, pairs):
    assert pairs_of(size) == pairs
