"""`tarantella verify` runs a script on several numbers of ranks and compares what they write."""

import os
import signal
import subprocess
import sys

import pytest
from launched import (
    ENDED_WITHIN_S,
    LIMIT_S,
    PROLOGUE,
    environment,
    is_alive,
    listen_to_signals,
    wait_until,
)

SCRIPT = (
    PROLOGUE
    + """
import json
size, lanes = int(os.environ["TNT_SIZE"]), os.environ.get("TNT_LANES")
moved = float(os.environ.get("TNT_MOVE_WEIGHTS", 0))
path = os.environ["TNT_STEP_HASHES"]
def begin(**values):
    header = {"kind": "run", "format": 1, "size": size, "lanes": lanes and int(lanes), "threads": 1,
              "processor": "AMD EPYC", "instructions": ["avx2"], "deterministic": True,
              "seeded": True, "compute_dtype": "float32"}
    write(header | values)
def write(values):
    if rank == 0:
        with open(path, "a") as file:
            file.write(json.dumps(values) + "\\n")
def step(number, loss):
    results = {"loss": {"value": loss, "hash": repr(loss)}}
    write({"kind": "step", "number": number, "step": "train_step", "model": "net",
           "results": results, "variables": {"kernel": repr(loss)}})
def end(**norms):
    write({"kind": "end", "steps": 2, "norms": norms})
print("output of rank", rank)
begin()
"""
)
SAME = "step(1, 0.5)\nstep(2, 0.25)\nend()\n"


@pytest.fixture
def verify(tmp_path):
    """A function that starts `tarantella verify` with options and a script."""
    started = []

    def start(options, script):
        (tmp_path / "script.py").write_text(SCRIPT + script)
        command = [sys.executable, "-m", "tnt_launch", "verify", "--no-gpu", *options.split()]
        process = subprocess.Popen(
            [*command, "--", "script.py"],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=listen_to_signals,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process, within_s=LIMIT_S):
    out, err = process.communicate(timeout=within_s)
    return process.returncode, out, err


def words(out):
    """The last words of the lines of the table."""
    return [line.split()[-1] for line in out.splitlines() if line[:3].strip().isdigit()]


def test_equal_runs_are_identical(verify, tmp_path):
    exit_code, out, err = ended(verify("-n 1,2,4 --lanes 4", SAME))
    assert exit_code == 0, err
    assert words(out)[1:] == ["same"] * 3
    assert "All runs are identical: every weight and every result has the same bits." in out
    assert "The bits hold between equal processors only." in out
    told = [
        f"tarantella: run {k} of 4: -n {n} --lanes 4 --no-gpu"
        for k, n in enumerate([1, 1, 2, 4], 1)
    ]
    assert err.splitlines() == told
    assert not list(tmp_path.glob("run-*"))


def test_runs_that_differ_are_told_with_the_cause_and_their_files_can_be_kept(verify, tmp_path):
    for _ in range(2):  # the files of another time are replaced
        exit_code, out, _ = ended(
            verify("-n 1,2 --keep kept", "step(1, 0.5)\nstep(2, 1 / size)\nend()")
        )
        assert exit_code == 1
        assert words(out)[1:] == ["same", "different"]
        assert "run 3 (2 ranks) differs from run 1 first in step 2" in out
        assert "likely cause: no lanes were given" in out
    assert f"Hashes and output of all runs are in {tmp_path / 'kept'}." in out
    names = [f"run-{number}.{suffix}" for number in (1, 2, 3) for suffix in ("jsonl", "log")]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == names
    assert len((tmp_path / "kept/run-1.jsonl").read_text().splitlines()) == 4
    assert "output of rank 0" in (tmp_path / "kept/run-1.log").read_text()


def test_a_script_that_differs_from_itself_is_not_reproducible(verify):
    script = "write({'kind': 'note', 'about': 'draw', 'text': 'script.py:3 draws'})\n"
    script += "step(1, 0.5)\nstep(2, time.time())\nend()"
    exit_code, out, _ = ended(verify("-n 1,2 --lanes 2", script))
    assert exit_code == 1
    assert words(out)[1:] == ["different", "different"]
    assert "not reproducible by itself. Numbers are drawn without a seed: script.py:3 draws" in out


def test_rounding_is_measured(verify):
    script = (
        "step(1, 0.5)\nstep(2, 0.25 + 1e-3 * moved + 5e-3 * (size == 2) + 5e-2 * (size == 4))\n"
    )
    script += "end(kernel=[0, 1])"
    exit_code, out, _ = ended(verify("-n 2,4 --within serial", script))
    assert exit_code == 1
    assert words(out) == ["serial", "moved", "within", "outside"]
    assert "run 4 (4 ranks): step 2, train_step of 'net': loss is 0.3, serially 0.25" in out


def test_a_run_that_fails_is_named_with_its_error_and_the_end_of_its_output(verify):
    script = "for number in range(40): print('line', number)\n"
    script += "if size == 2: raise ValueError('no such folder')\n" + SAME
    exit_code, out, err = ended(verify("-n 1,2", script))
    assert exit_code == 1
    assert out == ""
    assert err.splitlines()[-1] == (
        "tarantella: run 3 failed with exit code 1: ValueError: no such folder"
    )
    assert "\nline 39\n" in err
    assert "\nline 10\n" not in err


def test_the_exit_code_is_that_of_the_run_that_fails(verify):
    assert ended(verify("-n 1,2", SAME + "sys.exit(7)"))[0] == 7


@pytest.mark.parametrize("script", ["if rank == 0: os.remove(path)", "end()"])
def test_a_script_that_takes_no_step_by_tarantella_is_told(verify, script):
    exit_code, _, err = ended(verify("-n 1,2", script))
    assert exit_code == 1
    assert "run 1: it has written no hashes" in err


def test_what_cannot_be_started_is_refused_before_anything_runs(verify, tmp_path):
    exit_code, _, err = ended(verify("-n 1,3 --lanes 4", SAME))
    assert exit_code == 2
    assert err.startswith("tarantella: error: 4 lanes can be on 1, 2 or 4 ranks, not on 3")
    assert not (tmp_path / "pid-0").exists()


def test_the_commands_are_shown(verify):
    exit_code, out, _ = ended(verify("-n 1,2 --lanes 2 --dry-run", SAME))
    assert exit_code == 0
    commands = [f"tarantella -n {count} --lanes 2 --no-gpu -- script.py" for count in (1, 1, 2)]
    assert out.splitlines() == [
        f"env TNT_STEP_HASHES=run-{number}.jsonl {command}"
        for number, command in enumerate(commands, start=1)
    ]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_the_run_and_its_ranks(verify, tmp_path, number, exit_code):
    process = verify("-n 1,2 --grace 1", "wait_for('never')")
    wait_until((tmp_path / "pid-0").exists)
    pid = int((tmp_path / "pid-0").read_text())
    os.kill(process.pid, number)
    assert ended(process, ENDED_WITHIN_S)[0] == exit_code
    wait_until(lambda: not is_alive(pid), ENDED_WITHIN_S)
