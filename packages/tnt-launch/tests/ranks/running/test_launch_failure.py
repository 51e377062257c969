"""Whatever happens to a rank or the launcher: it is told truly, and nothing is left running."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from cases import cases
from launched import ENDED_WITHIN_S, is_alive, wait_until

from tnt_launch.running.orphans import LOOK_S

WAIT = "\ntime.sleep(1000)\n"
TELL = "\nfrom launched import tell\n"
LOST = TELL + 'tell("PeerLostError", f"rank {rank}: lost a peer", 1)\nsys.exit(1)\n'


def other_ranks(script):
    """Ranks other than 1 do this."""
    return "\nif rank != 1:\n" + "\n".join("    " + line for line in script.strip().splitlines())


def assert_gone(pids):
    wait_until(lambda: not any(is_alive(pid) for pid in pids), limit_s=ENDED_WITHIN_S)


@cases(("rank", "exit_code"), [(0, 255), (1, 3)], thorough=((0, 1), (0, 3), (1, 1), (1, 255)))
def test_the_exit_code_of_the_failing_rank_is_that_of_the_launcher(launch, rank, exit_code):
    script = f"\nif rank == {rank}: sys.exit({exit_code})" + WAIT
    job = launch(["-n", "2"], script)
    pids = job.pids(2)
    found, _, err = job.end(ENDED_WITHIN_S)
    assert found == exit_code
    assert f"(pid {pids[rank]}) failed first: exit code {exit_code}" in err
    assert not any(is_alive(pid) for pid in pids)


@cases("name", ["SIGKILL"], thorough=("SIGSEGV", "SIGTERM"))
def test_a_rank_killed_by_a_signal_is_named(launch, name):
    number = signal.Signals[name]
    job = launch(["-n", "3"], WAIT)
    pids = job.pids(3)
    os.kill(pids[1], number)
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 128 + number
    assert re.search(rf"rank 1 on \S+ \(pid {pids[1]}\) failed first: killed by {name}", err)
    assert not any(is_alive(pid) for pid in pids)


def test_the_first_failing_rank_comes_first_with_its_traceback_and_once(launch):
    script = """
def inner():
    raise LookupError("the cause")
if rank == 1:
    print("said by rank 1")
    wait_for("pid-0"); wait_for("pid-2")
    inner()
from launched import tell
wait_for(f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-1")
tell("ConnectionError", f"a consequence in rank {rank}")
sys.exit(1)
"""
    exit_code, out, err = launch(["-n", "3"], script).end(ENDED_WITHIN_S)
    report = err[err.index("tarantella: rank") :]
    assert exit_code == 1
    assert out == ""
    assert report.startswith("tarantella: rank 1 on ")
    assert "exit code 1: script.py:14: LookupError: the cause [" in report.splitlines()[0]
    assert err.count(", in inner") == 1
    assert report.splitlines()[-1] == "LookupError: the cause"
    assert ", in inner" in report
    assert "said by rank 1" in report
    for rank in (0, 2):  # by itself, or by the launcher, which waits for the error only
        how = "(exit code 1:|ended by tarantella after)"
        assert re.search(rf"rank {rank} on .*: {how} ConnectionError: a consequence", report)
    assert report.index("LookupError") < report.index("consequence in rank 0")


def test_a_rank_that_only_lost_a_peer_is_not_to_blame(launch):
    """The other has more time than after other errors: it prints nothing."""
    script = other_ranks(LOST) + "\nwait_for('pid-0')\ntime.sleep(3)\nsys.exit(9)"
    exit_code, _, err = launch(["-n", "2"], script).end(ENDED_WITHIN_S)
    assert exit_code == 9
    assert re.search(r"rank 1 on \S+ \(pid \d+\) failed first: exit code 9", err)
    assert "exit code 1: PeerLostError: rank 0: lost a peer" in err


def test_the_earlier_error_is_the_cause_though_its_rank_takes_longer_to_end(launch):
    script = (
        TELL
        + """
if rank == 1:
    tell("ValueError", "the cause")
    announce(1, "told")
    wait_for(f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-0")
    os._exit(5)
wait_for("told")
tell("ValueError", "a consequence")
os._exit(6)
"""
    )
    exit_code, _, err = launch(["-n", "2"], script).end(ENDED_WITHIN_S)
    assert exit_code == 5
    assert err.splitlines()[-1] == "ValueError: the cause"
    assert re.search(r"rank 0 on \S+ \(pid \d+\): exit code 6: ValueError: a consequence", err)


def test_a_rank_that_has_told_of_the_lost_one_is_ended(launch):
    """It would take as long as a process with TensorFlow may take, and is not let."""
    script = """
import atexit
if rank == 1:
    wait_for("pid-0")
    os.kill(os.getpid(), signal.SIGKILL)
wait_for(f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-1")
atexit.register(time.sleep, 1000)
"""
    exit_code, _, err = launch(["-n", "2"], script + LOST).end(ENDED_WITHIN_S)
    assert exit_code == 128 + signal.SIGKILL
    lost = r"ended by tarantella after PeerLostError: rank 0: lost a peer"
    assert re.search(rf"^rank 0 on \S+ \(pid \d+\): {lost}$", err, re.MULTILINE)


def test_a_rank_that_left_early_is_mentioned_if_others_lost_it(launch):
    script = other_ranks("wait_for('pid-1')\ntime.sleep(0.3)" + LOST)
    exit_code, _, err = launch(["-n", "3"], script).end(ENDED_WITHIN_S)
    assert exit_code == 1
    assert "was the first to fail, because of rank 1: exit code 1" in err
    assert re.search(r"rank 1 on .*: left with exit code 0", err)


def test_a_rank_may_end_well_before_the_others(launch):
    script = "\nif rank == 1: sys.exit(0)\nwait_for('pid-1')\ntime.sleep(0.3)\nprint('end')"
    assert launch(["-n", "2"], script).end()[:2] == (0, "end\n")


def test_a_traceback_of_a_rank_that_goes_on_is_shown(launch):
    script = """
import traceback
if rank == 1:
    try:
        raise LookupError("handled")
    except LookupError:
        traceback.print_exc()
"""
    exit_code, _, err = launch(["-n", "2"], script).end()
    assert exit_code == 0
    assert "[1] LookupError: handled\n" in err


def test_a_stopped_rank_is_ended_and_told(launch):
    job = launch(["-n", "3"], "\nif rank == 0:\n    wait_for('go')\n    sys.exit(4)" + WAIT)
    pids = job.pids(3)
    os.kill(pids[2], signal.SIGSTOP)
    (job.folder / "go").touch()
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 4
    assert re.search(r"rank 2 on .*: was stopped \(SIGSTOP\), ended by tarantella", err)
    assert not any(is_alive(pid) for pid in pids)


def test_a_stopped_rank_can_still_act_on_sigterm(launch):
    script = """
if rank == 0:
    wait_for("go")
    sys.exit(4)
signal.signal(signal.SIGTERM, lambda *_: (announce(1, "saved"), sys.exit(0)))
announce(1, "ready")
"""
    job = launch(["-n", "2"], script + WAIT)
    job.pid("ready")
    os.kill(job.pid("pid-1"), signal.SIGSTOP)
    (job.folder / "go").touch()
    assert job.end(ENDED_WITHIN_S)[0] == 4
    assert job.pid("saved") == 1


def test_a_rank_deaf_to_signals_is_ended(launch):
    deaf = "\nfor number in (2, 15): signal.signal(number, signal.SIG_IGN)\n"
    job = launch(["-n", "2"], deaf + "announce(1, f'deaf-{rank}')" + WAIT)
    pids = job.pids(2)
    job.pid("deaf-0")
    os.kill(pids[1], signal.SIGKILL)
    assert job.end(ENDED_WITHIN_S)[0] == 128 + signal.SIGKILL
    assert not any(is_alive(pid) for pid in pids)


def test_the_others_may_save_something_on_sigterm(launch):
    script = """
if rank == 1:
    wait_for("ready")
    sys.exit(1)
def save(number, frame):
    announce(1, "saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
announce(1, "ready")
"""
    job = launch(["-n", "2"], script + WAIT)
    assert job.end(ENDED_WITHIN_S)[0] == 1
    assert job.pid("saved") == 1


CHILD = """
import subprocess
program = [sys.executable, "-c", "import time; time.sleep(1000)"]
child = subprocess.Popen(program, stderr=subprocess.DEVNULL)  # it may be ended while it starts
announce(child.pid, f"child-{rank}")
"""


CHILD_IN_A_SESSION = CHILD.replace("stderr=", "start_new_session=True, stderr=")
ORPHAN = """
import subprocess
program = "sleep 1000 >/dev/null 2>&1 & echo $!"
done = subprocess.run(["setsid", "sh", "-c", program], stdout=subprocess.PIPE)
announce(int(done.stdout), f"child-{rank}")
"""
"""In a session of its own, and the process that started it has ended."""

CHILDREN = pytest.mark.parametrize(
    "child",
    [CHILD, CHILD_IN_A_SESSION, ORPHAN],
    ids=["child", "child in a session", "orphan in a session"],
)


@CHILDREN
def test_what_ranks_started_ends_with_the_job(launch, child):
    job = launch(
        ["-n", "2"], child + "\nif rank == 1:\n    wait_for('child-0')\n    sys.exit(1)" + WAIT
    )
    children = [job.pid(f"child-{rank}") for rank in range(2)]
    assert job.end(ENDED_WITHIN_S)[0] == 1
    assert_gone(children)


@CHILDREN
def test_what_ranks_left_behind_ends_with_a_job_that_went_well(launch, child):
    job = launch(["-n", "2"], child + "\nos._exit(0)")
    children = [job.pid(f"child-{rank}") for rank in range(2)]
    assert job.end()[0] == 0
    assert_gone(children)


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (signal.SIGINT, "SIGINT received"),
        (signal.SIGTERM, "asked to end by SIGTERM"),
        (signal.SIGUSR1, "asked to end by SIGUSR1"),
        (signal.SIGHUP, "SIGHUP received"),
    ],
)
def test_a_signal_to_the_launcher_ends_everything(launch, number, what):
    job = launch(["-n", "3"], CHILD + WAIT)
    children = [job.pid(f"child-{rank}") for rank in range(3)]
    job.process.send_signal(number)
    found, _, err = job.end(ENDED_WITHIN_S)
    assert found == 128 + number
    assert_gone([*job.pids(3), *children])
    assert "Traceback" not in err
    assert err.count("KeyboardInterrupt") == 0
    assert err.splitlines() == [f"tarantella: {what}, all 3 ranks have ended"]


def test_what_python_says_of_an_interrupt_while_it_starts_is_not_shown(launch):
    script = """
def leave(number, frame):
    sys.stderr.write("Fatal Python error: init_import_site: Failed to import the site module\\n")
    sys.stderr.write("Python runtime state: initialized\\nTraceback (most recent call last):\\n")
    sys.stderr.write("KeyboardInterrupt\\n")
    sys.exit(1)
signal.signal(signal.SIGINT, leave)
announce(1, "ready")
"""
    job = launch(["-n", "1"], script + WAIT)
    job.pid("ready")
    job.process.send_signal(signal.SIGINT)
    exit_code, _, err = job.end(ENDED_WITHIN_S)
    assert exit_code == 130
    assert err == "tarantella: SIGINT received, all 1 ranks have ended\n"


def test_ranks_get_ctrl_c_once(launch):
    script = """
count = 0
def note(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, lambda *_: (announce(count, f"count-{rank}"), sys.exit(0)))
announce(1, f"ready-{rank}")
while True:
    time.sleep(0.01)
"""
    job = launch(["-n", "2"], script)
    for rank in range(2):
        job.pid(f"ready-{rank}")
    job.process.send_signal(signal.SIGINT)
    assert job.end(ENDED_WITHIN_S)[0] == 130
    assert [job.pid(f"count-{rank}") for rank in range(2)] == [1, 1]


def test_a_second_ctrl_c_kills_at_once(launch):
    script = """
signal.signal(signal.SIGINT, lambda *_: announce(1, f"interrupted-{rank}"))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
announce(1, f"ready-{rank}")
while True:
    time.sleep(0.01)
"""
    job = launch(["-n", "2"], script)
    for rank in range(2):
        job.pid(f"ready-{rank}")
    job.process.send_signal(signal.SIGINT)
    for rank in range(2):
        job.pid(f"interrupted-{rank}")
    job.process.send_signal(signal.SIGINT)
    assert job.end(ENDED_WITHIN_S)[0] == 130
    assert_gone(job.pids(2))


def test_nohup_is_respected(launch):
    job = launch(["-n", "1"], "wait_for('go')", preexec_fn=ignore_hangup)
    job.pids(1)
    job.process.send_signal(signal.SIGHUP)
    (job.folder / "go").touch()
    assert job.end()[0] == 0


def ignore_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


NOTE = """
import glob
if rank == 1: sys.exit(0)
wait_for(f"/dev/shm/tnt-{os.environ['TNT_JOB_ID']}-ended-1")
announce(1, "noted")
with open("job", "w") as file: file.write(os.environ["TNT_JOB_ID"])
announce(1, "named")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_notes_of_ended_ranks_do_not_outlive_the_job(launch, number):
    job = launch(["-n", "2"], NOTE + WAIT)
    job.pid("named")
    notes = f"tnt-{(job.folder / 'job').read_text()}-*"
    assert list(Path("/dev/shm").glob(notes))
    job.process.send_signal(number)
    job.end()
    wait_until(lambda: not list(Path("/dev/shm").glob(notes)))


@CHILDREN
def test_nothing_survives_a_launcher_that_is_killed(launch, child):
    job = launch(["-n", "2"], child + WAIT)
    pids = job.pids(2) + [job.pid(f"child-{rank}") for rank in range(2)]
    job.process.kill()
    job.process.wait()
    assert_gone(pids)


DAEMON = """
import subprocess
code = "import os; open('pid-daemon.part', 'w').write(str(os.getpid())); "
code += "os.rename('pid-daemon.part', 'pid-daemon'); __import__('time').sleep(1000)"
subprocess.run(["sh", "-c", 'setsid env -i "$0" -c "$1" & :', sys.executable, code])
time.sleep(1000)
"""


def test_a_daemon_that_hides_its_origin_ends_with_a_killed_launcher(launch):
    """It is no child of a rank any more, and has none of its variables."""
    job = launch(["-n", "1"], DAEMON)
    pids = [*job.pids(1), job.pid("pid-daemon")]
    time.sleep(3 * LOOK_S)  # nobody can see when the watchdog has looked
    job.process.kill()
    job.process.wait()
    assert_gone(pids)


def test_ranks_end_with_the_launcher_even_without_its_watchdog(launch):
    job = launch(["-n", "2"], WAIT)
    ranks = job.pids(2)
    launcher = job.process.pid
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    for pid in {int(word) for word in children} - set(ranks):
        os.kill(pid, signal.SIGKILL)
    job.process.kill()
    job.process.wait()
    assert_gone(ranks)


def test_a_failure_is_seen_while_nobody_reads_the_output(launch):
    script = (
        "\nif rank == 1:\n    wait_for('full')\n    sys.exit(6)\n"
        + """
os.set_blocking(1, False)
try:
    while True:
        os.write(1, b"x" * 4095 + b"\\n")
except BlockingIOError:
    time.sleep(1)
    announce(1, "full")
os.set_blocking(1, True)
while True:
    os.write(1, b"x" * 4095 + b"\\n")
"""
    )
    job = launch(["-n", "2", "--output-on-all-devices"], script)
    pids = job.pids(2)
    job.pid("full")
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    assert job.end()[0] == 6


def test_a_job_without_failure_says_nothing(launch):
    assert launch(["-n", "2"], "").end() == (0, "", "")
