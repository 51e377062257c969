"""Checks run side by side, their output stays in one piece, and none can hang or fail unseen."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run_checks


@pytest.fixture
def run(tmp_path, capsys):
    """A function that runs checks and returns the exit status and what was printed."""

    def start(*checks, workers=2):
        file = tmp_path / "checks.json"
        reports = tmp_path / "reports"
        reports.mkdir(exist_ok=True)
        file.write_text(json.dumps([{"deadline_s": 60, **check} for check in checks]))
        status = run_checks.main([str(file), "--reports", str(reports), f"--workers={workers}"])
        return status, capsys.readouterr().out

    return start


def python(source):
    return [sys.executable, "-c", source]


def test_outputs_of_checks_that_run_side_by_side_are_not_mixed(run):
    lines = "import time\nfor i in range(3): print('{}', i, flush=True); time.sleep(0.1)"
    checks = [{"title": name, "commands": [python(lines.format(name))]} for name in "ab"]
    status, output = run(*checks)
    assert status == 0
    for name in "ab":
        assert f"\n{name} 0\n{name} 1\n{name} 2\n" in output


def test_two_workers_run_two_checks_at_a_time(run, tmp_path):
    # Each waits for a file that the other one writes.
    wait = "import pathlib, time\npathlib.Path({!r}).touch()\n"
    wait += "while not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    checks = [{"title": x, "commands": [python(wait.format(x, y))]} for x, y in ((a, b), (b, a))]
    assert run(*checks)[0] == 0


def test_a_failing_check_is_named_and_the_others_still_run(run):
    bad = {"title": "bad", "commands": [python("raise SystemExit(3)"), python("print('never')")]}
    status, output = run(bad, {"title": "good", "commands": [python("print('done')")]}, workers=1)
    assert status == 1
    assert "failed: bad (exit status 3)" in output
    assert "\ndone\n" in output
    assert "\nnever" not in output
    assert re.search(r"==== 1 failed, 0 passed, 0 skipped in \d+\.\d minutes ====\n$", output)


def is_running(pid, patience_s=10.0):
    """Whether a process is still there after a while; a killed one takes a moment to end."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":  # nobody has waited for it yet
            return False
        time.sleep(0.05)
    return True


STARTS_A_CHILD = """
import os, pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
pathlib.Path({!r}).write_text(str(child.pid))
print("here", flush=True)
"""


def test_a_check_past_its_deadline_is_ended_with_all_it_started(run, tmp_path):
    source = STARTS_A_CHILD.format(str(tmp_path / "pid")) + "child.wait()"
    status, output = run({"title": "hangs", "commands": [python(source)], "deadline_s": 2})
    assert status == 1
    assert "hangs (ended after its deadline of 2 s)" in output
    assert "\nhere\n" in output
    assert not is_running((tmp_path / "pid").read_text())


def test_what_runs_long_is_shown_with_its_latest_line(run, monkeypatch):
    monkeypatch.setattr(run_checks, "REPORT_EVERY_S", 0.3)
    source = "import time\nprint('half way', flush=True)\ntime.sleep(1.5)"
    _, output = run({"title": "long", "commands": [python(source)]})
    assert re.search(r"^\.\.\.\. long, \d s: half way$", output, re.MULTILINE)


def test_the_time_on_cores_is_that_of_all_processes_that_a_check_has_waited_for(run):
    busy = "import os, time; b = time.process_time()\nwhile time.process_time() < b + 0.6: pass"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    _, output = run({"title": "busy", "commands": [python(start)] * 2})
    [seconds] = re.findall(r"^ +\d+ s +(\d+) s  busy$", output, re.MULTILINE)
    assert 1 <= int(seconds) <= 3


def test_tests_of_all_reports_are_counted(run, tmp_path):
    (tmp_path / "reports").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"reports/{name}.xml").write_text(
            '<testsuites><testsuite tests="10" failures="1" errors="1" skipped="3"/></testsuites>'
        )
    status, output = run({"title": "nothing", "commands": []})
    assert status == 1
    assert "==== 4 failed, 10 passed, 6 skipped in " in output


def test_failed_tests_are_named_at_the_end(run, tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/one.xml").write_text(
        '<testsuite tests="2" failures="1" errors="0" skipped="0"><testcase classname="a.b" '
        'name="c"><failure message="assert 1 == 2">long</failure></testcase></testsuite>'
    )
    status, output = run({"title": "nothing", "commands": []})
    assert status == 1
    assert "\nfailed: a.b::c: assert 1 == 2\n" in output
    assert "==== 1 failed, 1 passed, 0 skipped in " in output


def test_the_output_of_a_failed_test_is_shown_where_its_report_has_it_alone(run, tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/cpp.xml").write_text(
        '<testsuite tests="1" failures="1" errors="0" skipped="0"><testcase classname="Sum" '
        'name="Sum"><failure message="Failed"/><system-out>3 is not 4\nat sum.cpp:7\n</system-out>'
        "</testcase></testsuite>"
    )
    _, output = run({"title": "nothing", "commands": []})
    assert "\nfailed: Sum::Sum: Failed\n3 is not 4\nat sum.cpp:7\n" in output


def test_a_report_that_breaks_off_is_a_failure(run, tmp_path):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/one.xml").write_text('<testsuites><testsuite tests="10"><testc')
    status, output = run({"title": "nothing", "commands": []})
    assert status == 1
    assert "\nfailed: one.xml: no whole report" in output
    assert "==== 1 failed, 0 passed, 0 skipped in " in output


def test_a_program_that_is_not_there_fails_its_check(run):
    status, output = run({"title": "lost", "commands": [["no-such-program", "--here"]]})
    assert status == 1
    assert "failed: lost (cannot be started: " in output
    assert "no-such-program" in output


def test_a_check_that_prints_nothing_shows_what_was_run(run):
    _, output = run({"title": "silent", "commands": [["true"]]})
    assert re.search(r"^==== silent: passed, \d s ====\n\$ true$", output, re.MULTILINE)


def test_a_check_that_crashes_says_by_which_signal_and_leaves_nothing_behind(run, tmp_path):
    source = STARTS_A_CHILD.format(str(tmp_path / "pid")) + "os.kill(os.getpid(), 11)"
    status, output = run({"title": "crash", "commands": [python(source)]})
    assert status == 1
    assert "failed: crash (ended by SIGSEGV)" in output
    assert not is_running((tmp_path / "pid").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_runs_and_starts_nothing_else(tmp_path, number):
    source = f"import os, time\nopen({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close()"
    source += "\nprint('here', flush=True)\ntime.sleep(300)"
    check = {"title": "long", "commands": [python(source)] * 2, "deadline_s": 300}
    file = tmp_path / "checks.json"
    file.write_text(json.dumps([check] * 4))
    options = [f"--reports={tmp_path / 'reports'}", "--workers=2"]
    program = [sys.executable, run_checks.__file__, str(file), *options]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # it may be ignored here
    ) as runner:
        while len(started := [name for name in os.listdir(tmp_path) if name.isdigit()]) < 2:
            assert runner.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        runner.send_signal(number)
        output, _ = runner.communicate(timeout=60)
    assert runner.returncode in (128 + number, -number)
    assert output.decode().count("==== long: FAILED, interrupted") == 2
    assert "\nhere\n" in output.decode()
    assert [name for name in os.listdir(tmp_path) if name.isdigit()] == started
    assert not any(map(is_running, started))
