"""Launchers that are started by hand on each host, without ssh."""

import shutil
import signal
import socket
import subprocess
import sys

import pytest
from launched import (
    ENDED_WITHIN_S,
    PROLOGUE,
    Launched,
    is_alive,
    spawn,
    wait_until,
)

SECRET = "0123456789abcdef0123"
TELL = "print(rank, os.environ['TNT_SIZE'], os.environ['TNT_NODE_RANK'])"
WAITING = "wait_for('never')"
INTERRUPTED_AT_THE_END = """
import sys
from tnt_launch import cli
from tnt_launch.running import restarts

def interrupt(*_):
    raise KeyboardInterrupt

restarts.run_job = interrupt
sys.exit(cli.main())
"""


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def start(port, tmp_path):
    """Start the launcher of a node; all are killed at the end."""
    started = []
    (tmp_path / "home").mkdir()

    usual = ("-m", "tnt_launch")

    def start_node(
        node, script, *options, num_nodes=2, secret=SECRET, program="script.py", launcher=usual
    ):
        (tmp_path / program).write_text(PROLOGUE + script)
        command = [sys.executable, *launcher, "--nnodes", str(num_nodes), "--no-gpu"]
        rendezvous = ["--node-rank", str(node), "--rendezvous", f"127.0.0.1:{port}"]
        variables = {"TNT_JOB_SECRET": secret} if secret else {}
        process = spawn(
            [*command, *rendezvous, *options, "--", program],
            tmp_path,
            {"XDG_CONFIG_HOME": str(tmp_path / "home")} | variables,
        )
        started.append(process)
        return Launched(process, tmp_path)

    yield start_node
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_launchers_meet_in_any_order_and_each_says_how_many_ranks_it_has(start, order):
    nodes = {
        node: start(node, TELL, "-n", "2", "--output-on-all-devices", num_nodes=3) for node in order
    }
    exit_code, out, err = nodes[0].end()
    assert (exit_code, err) == (0, "")
    others = {f"[{rank}] {rank} 6 {rank // 2}" for rank in range(1, 6)}
    assert set(out.splitlines()) == {"0 6 0"} | others
    assert [nodes[node].end() for node in (1, 2)] == [(0, "", "")] * 2


def test_a_secret_in_the_home_is_made_for_the_user_alone(start, tmp_path):
    nodes = [start(node, TELL, secret=None) for node in (0, 1)]
    assert [node.end()[0] for node in nodes] == [0, 0]
    path = tmp_path / "home" / "tarantella" / "secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().strip()) == 64


def test_a_secret_that_others_may_read_is_refused(start, tmp_path):
    folder = tmp_path / "home" / "tarantella"
    folder.mkdir()
    (folder / "secret").write_text("x" * 64)
    (folder / "secret").chmod(0o644)
    exit_code, _, err = start(0, TELL, secret=None).end()
    assert exit_code == 2
    assert "chmod 600" in err


def test_the_exit_code_of_the_job_is_that_of_all_launchers(start):
    nodes = [start(node, "if rank == 1: sys.exit(9)\nwait_for('never')") for node in (0, 1)]
    ends = [node.end() for node in nodes]
    assert [end[0] for end in ends] == [9, 9]
    assert "rank 1 on" in ends[0][2].splitlines()[0]
    assert "the job has failed" in ends[1][2]


ERROR_ELSEWHERE = """
from launched import tell
if rank == 1:
    tell("ValueError", "the cause")
    announce(1, "failed")
    wait_for("another-failed")
    time.sleep(1)
    os._exit(5)
wait_for("failed")
tell("ValueError", "a consequence", {cause_rank})
announce(1, "another-failed")
os._exit(6)
"""


@pytest.mark.parametrize("cause_rank", [1, None])
def test_the_error_that_came_first_is_the_cause_on_whichever_host(start, cause_rank):
    script = ERROR_ELSEWHERE.format(cause_rank=cause_rank)
    nodes = [start(node, script) for node in (0, 1)]
    exit_code, _, err = nodes[0].end(ENDED_WITHIN_S)
    assert exit_code == 5
    assert "rank 1 on" in err.splitlines()[0]
    assert err.splitlines()[0].endswith(
        "failed first: exit code 5: script.py: ValueError: the cause [rank-failed]"
    )
    assert ": exit code 6: ValueError: a consequence" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("node", [0, 1])
def test_the_end_of_one_launcher_ends_the_ranks_of_all(start, node, number):
    nodes = [start(one, WAITING, num_nodes=3) for one in (0, 1, 2)]
    pids = nodes[0].pids(3)
    nodes[node].process.send_signal(number)
    exit_codes = [one.end()[0] for one in nodes]
    assert exit_codes[node] == (130 if number == signal.SIGINT else -number)
    assert 0 not in exit_codes
    wait_until(lambda: not any(is_alive(pid) for pid in pids), limit_s=ENDED_WITHIN_S)


@pytest.mark.parametrize("node", [0, 1])
def test_a_scheduler_that_signals_one_launcher_ends_the_job_in_order(start, node):
    nodes = [start(one, WAITING, num_nodes=2) for one in (0, 1)]
    pids = nodes[0].pids(2)
    nodes[node].process.send_signal(signal.SIGTERM)
    ends = [one.end() for one in nodes]
    assert [exit_code for exit_code, _, _ in ends] == [128 + signal.SIGTERM] * 2
    assert ends[0][2] == "tarantella: asked to end by SIGTERM, all 2 ranks have ended\n"
    assert not any(is_alive(pid) for pid in pids)


def test_a_ctrl_c_after_the_ranks_have_ended_is_that_of_all_launchers(start):
    other = start(1, TELL)
    start(0, TELL, launcher=("-c", INTERRUPTED_AT_THE_END))
    assert other.end()[0] == 128 + signal.SIGINT


def test_a_launcher_with_another_secret_is_refused_and_delays_nobody(start):
    first = start(0, TELL)
    exit_code, _, err = start(1, TELL, secret="another secret of somebody").end()
    assert exit_code == 2
    assert "uses a different secret, or is not a Tarantella launcher" in err
    assert start(1, TELL).end()[0] == 0
    exit_code, _, err = first.end()
    assert exit_code == 0
    assert "a connection from 127.0.0.1 was refused: it does not know the secret" in err


def test_strangers_who_say_nothing_or_rubbish_delay_nobody(start, port):
    first = start(0, TELL)
    silent = []
    wait_until(lambda: connect(port, silent))
    for _ in range(99):
        connect(port, silent)
    silent[0].send(b"GET / HTTP/1.0\r\n\r\n" * 10000)
    silent[1].send(b"\ntarantella channel 1\n" + b"\xff" * 64)
    assert start(1, TELL).end()[0] == 0
    assert first.end()[0] == 0
    for one in silent:
        one.close()


def connect(port, connections):
    try:
        connections.append(socket.create_connection(("127.0.0.1", port), 5))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"num_nodes": 3}, "node 1 says --nnodes 3, node 0 says 2"),
        ({"program": "other.py"}, "node 1 runs ['other.py'], but node 0 runs ('script.py',)"),
    ],
)
def test_a_launcher_that_was_started_otherwise_is_told_so(start, second, why):
    start(0, TELL)
    exit_code, _, err = start(1, TELL, **second).end()
    assert exit_code == 2
    assert why in err


def test_a_number_that_was_given_twice_is_told(start):
    start(0, WAITING, num_nodes=3)
    first = start(1, WAITING, num_nodes=3)
    second = start(1, WAITING, num_nodes=3)
    wait_until(lambda: any(one.process.poll() is not None for one in (first, second)))
    ended = first if first.process.poll() is not None else second
    exit_code, _, err = ended.end()
    assert exit_code == 2
    assert "--node-rank 1 was given to two launchers" in err


def test_who_does_not_come_is_named(start):
    exit_code, _, err = start(0, TELL, "--timeout", "0.5", num_nodes=4).end()
    assert exit_code == 2
    assert "--node-rank 1, 2, 3 of --nnodes 4 did not join within 0.5 s" in err


def test_node_0_that_does_not_come_is_named(start, port):
    exit_code, _, err = start(1, TELL, "--timeout", "0.5").end()
    assert exit_code == 2
    assert f"node 0 at 127.0.0.1:{port} did not answer within 0.5 s" in err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--nnodes", "2"], "--nnodes, --node-rank and --rendezvous must be given together"),
        (
            ["--nnodes", "2", "--node-rank", "2", "--rendezvous", "a:1"],
            "--node-rank must be between 0 and 1",
        ),
        (
            ["--nnodes", "0", "--node-rank", "0", "--rendezvous", "a:1"],
            "--nnodes must be at least 1",
        ),
        (["--nnodes", "2", "--node-rank", "0", "--rendezvous", "a"], "it must be host:port"),
        (
            ["--nnodes", "2", "--node-rank", "0", "--rendezvous", "192.0.2.7:1"],
            "which is not an address of this host",
        ),
        (
            ["--nnodes", "2", "--node-rank", "0", "--rendezvous", "a:1", "-H", "b"],
            "Give one of them",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(launch, options, why):
    exit_code, _, err = launch(options, "").end()
    assert exit_code == 2
    assert why in err
    assert len(err.splitlines()) == 1


def listeners(pid):
    """The addresses at which a process listens."""
    shown = subprocess.run(
        ["ss", "-Hltnp"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    return [line.split()[3] for line in shown.splitlines() if f"pid={pid}," in line]


@pytest.mark.skipif(shutil.which("ss") is None, reason="there is no ss: install iproute2")
def test_node_0_listens_at_one_address_and_only_until_all_have_come(start, port):
    first = start(0, WAITING)
    wait_until(lambda: listeners(first.process.pid) == [f"127.0.0.1:{port}"])
    second = start(1, WAITING)
    first.pids(2)
    assert listeners(first.process.pid) == []
    assert listeners(second.process.pid) == []
