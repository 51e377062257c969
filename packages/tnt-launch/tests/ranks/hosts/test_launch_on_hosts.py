"""Jobs on several hosts, each with an sshd, and what is left when something breaks."""

import json
import os
import signal
import subprocess
import sys

import pytest
from cases import cases
from launched import (
    ENDED_WITHIN_S,
    LIMIT_S,
    PROLOGUE,
    Launched,
    environment,
    spawn,
    wait_until,
)
from ssh_hosts import ssh_cluster

WAITING = """
import subprocess
announce(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid, f"orphan-{rank}")
wait_for("never")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ssh_cluster(["alpha", "beta", "gamma"], tmp_path_factory.mktemp("ssh")) as made:
        yield made


@pytest.fixture
def start(cluster, tmp_path):
    """Start a script on hosts; all that runs is killed at the end."""
    started = []

    usual = cluster

    def start_on(hosts, script, *options, arguments=(), env=None, ssh=None, cluster=usual):
        (tmp_path / "script.py").write_text(PROLOGUE + script)
        command = [sys.executable, "-m", "tnt_launch", "--ssh", ssh or cluster.ssh, "-H", hosts]
        process = spawn(
            [*cluster.prefix, *command, *options, "--", "script.py", *arguments], tmp_path, env
        )
        started.append(process)
        return Launched(process, tmp_path)

    yield start_on
    for process in started:
        process.kill()
        process.communicate()


def processes_of(host):
    """All of a host that are a rank's, an agent's, or were started by a rank."""
    return host.pids("script.py") + host.pids("host_agent") + host.pids("sleep 1000")


def assert_nothing_is_left(hosts):
    for host in hosts:
        wait_until(lambda host=host: processes_of(host) == [], limit_s=ENDED_WITHIN_S)


TELL = """
import json
names = "TNT_RANK TNT_SIZE TNT_LOCAL_RANK TNT_LOCAL_SIZE TNT_NODE_RANK TNT_NUM_NODES".split()
told = {"place": [int(os.environ[name]) for name in names]}
told |= {"host": os.uname().nodename, "arguments": sys.argv[1:], "folder": os.getcwd()}
told |= {"pwd": os.environ.get("PWD")}
told |= {"mine": os.environ.get("MINE"), "given": os.environ.get("GIVEN")}
told |= {"home": os.environ.get("SSH_CONNECTION", "").split()[2:3]}
with open(f"told-{rank}", "w") as file:
    json.dump(told, file)
"""


def test_ranks_get_their_place_arguments_folder_and_environment(start, cluster, tmp_path):
    odd = ["two words", "it's", '"$HOME"', "back\\slash", "", "*", "new\nline", "ü"]
    env = {"MINE": "a 'b' $c\nd", "SSH_CONNECTION": "not of the host"}
    job = start("alpha:2,beta:2", TELL, "-x", "GIVEN=$x 'y'", arguments=odd, env=env)
    assert job.end() == (0, "", "")
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in range(4)]
    assert [one["place"] for one in told] == [
        [0, 4, 0, 2, 0, 2],
        [1, 4, 1, 2, 0, 2],
        [2, 4, 0, 2, 1, 2],
        [3, 4, 1, 2, 1, 2],
    ]
    assert [one["host"] for one in told] == ["alpha", "alpha", "beta", "beta"]
    for one in told:
        assert one["arguments"] == odd
        assert one["folder"] == str(tmp_path)
        assert (one["mine"], one["given"]) == (env["MINE"], "$x 'y'")
    alpha, beta, _ = [host.address for host in cluster.hosts]
    assert [one["home"] for one in told] == [[alpha], [alpha], [beta], [beta]]
    assert [one["pwd"] for one in told[2:]] == [str(tmp_path)] * 2  # not that of the login


def test_the_master_is_shown_as_it_writes_and_others_are_quiet(start, cluster):
    script = """
if rank == 0:
    for number in range(40000):
        print("line", number)
    sys.stdout.write("no newline")
else:
    print("hidden")
    print(f"shown {rank}", file=sys.stderr)
"""
    exit_code, out, err = start("alpha,beta", script).end()
    assert exit_code == 0
    assert out == "".join(f"line {number}\n" for number in range(40000)) + "no newline"
    assert "hidden" not in err
    assert "shown 1" in err


def test_the_first_failure_is_told_with_its_host_and_its_exit_code(start, cluster):
    script = "if rank == 2: sys.exit(7)\nwait_for('never')"
    exit_code, _, err = start("alpha:2,beta:2", script).end()
    assert exit_code == 7
    assert err.startswith("tarantella: rank 2 on beta (pid ")
    assert "failed first: exit code 7" in err
    assert_nothing_is_left(cluster.hosts)


def test_a_killed_rank_ends_all_with_what_they_started(start, cluster):
    job = start("alpha:2,beta:2", WAITING)
    [job.pid(f"orphan-{rank}") for rank in range(4)]
    os.kill(cluster.hosts[1].pids("script.py")[0], signal.SIGKILL)
    exit_code, _, err = job.end()
    assert exit_code == 128 + signal.SIGKILL
    assert "on beta" in err.splitlines()[0]
    assert "killed by SIGKILL" in err.splitlines()[0]
    assert_nothing_is_left(cluster.hosts)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_launcher_ends_the_ranks_of_all_hosts(start, cluster, number):
    job = start("alpha:1,beta:1,gamma:1", WAITING)
    [job.pid(f"orphan-{rank}") for rank in range(3)]
    job.process.send_signal(number)
    exit_code, _, _ = job.end()
    assert exit_code == (-number if number == signal.SIGKILL else 128 + number)
    assert_nothing_is_left(cluster.hosts)


def test_the_end_of_ssh_ends_the_job_and_names_the_host(start, cluster):
    job = start("alpha:1,beta:1", WAITING)
    [job.pid(f"orphan-{rank}") for rank in range(2)]
    (connection,) = [pid for pid in cluster.hosts[1].pids("sshd") if not is_listener(pid)][:1]
    os.kill(connection, signal.SIGKILL)
    exit_code, _, err = job.end()
    assert exit_code == 255
    assert "rank 1 on beta" in err.splitlines()[0]
    assert "host beta is lost" in err.splitlines()[0]
    assert_nothing_is_left(cluster.hosts)


def is_listener(pid):
    with open(f"/proc/{pid}/cmdline") as line:
        return "-D" in line.read()


RESTARTED = """
if os.environ["TNT_RESTART_COUNT"] == "0": wait_for("never")
print("ranks:", os.environ["TNT_SIZE"])
"""


def test_a_job_is_started_again_on_a_host_that_answers_again(start, cluster):
    job = start("alpha:1,beta:1", RESTARTED, "--max-restarts", "1")
    job.pids(2)
    (connection,) = [pid for pid in cluster.hosts[1].pids("sshd") if not is_listener(pid)][:1]
    os.kill(connection, signal.SIGKILL)
    exit_code, out, err = job.end()
    assert (exit_code, out) == (0, "ranks: 2\n")
    assert "host beta is lost" in err
    assert err.splitlines()[-1] == "tarantella: restart 1 of 1: all ranks are started again"


@pytest.mark.parametrize(
    ("options", "end", "told"),
    [
        (["--min-ranks", "2"], (0, "ranks: 2\n"), "continuing without host epsilon: "),
        (["--min-ranks", "3"], (255, ""), "there are 2 ranks, fewer than --min-ranks 3"),
        ([], (255, ""), "With --min-ranks M the job continues without them."),
    ],
)
def test_a_job_goes_on_without_a_host_that_is_gone_if_enough_ranks_are_left(
    start, tmp_path_factory, options, end, told
):
    with ssh_cluster(["delta", "epsilon"], tmp_path_factory.mktemp("gone")) as own:
        restarts = ["--max-restarts", "1", *options]
        job = start("delta:2,epsilon:1", RESTARTED, *restarts, cluster=own)
        job.pids(3)
        own.hosts[1].kill()
        exit_code, out, err = job.end()
        assert (exit_code, out) == end
        assert told in err.partition("restart 1 of 1")[2]


@pytest.mark.parametrize("how", ["kill", "cut"])
def test_a_host_that_is_gone_ends_the_job_and_is_named(start, tmp_path_factory, how):
    with ssh_cluster(["delta", "epsilon"], tmp_path_factory.mktemp("gone")) as own:
        job = start("delta:1,epsilon:1", WAITING, cluster=own)
        [job.pid(f"orphan-{rank}") for rank in range(2)]
        getattr(own.hosts[1], how)()
        exit_code, _, err = job.end()
        assert exit_code == 255
        assert "rank 1 on epsilon" in err.splitlines()[0]
        assert "host epsilon is lost" in err.splitlines()[0]
        assert_nothing_is_left(own.hosts)


@pytest.mark.parametrize(
    ("hosts", "options", "why"),
    [
        ("alpha,nowhere", (), "host nowhere: ssh: Could not resolve hostname nowhere"),
        ("alpha,beta", ("--interface", "wlan9"), "host alpha has no such network interface"),
    ],
)
def test_a_host_that_cannot_take_part_is_named_before_any_rank_starts(start, hosts, options, why):
    job = start(hosts, "", *options)
    exit_code, _, err = job.end()
    assert exit_code == 2
    assert err.startswith("tarantella: error: ")
    assert why in err
    assert len(err.splitlines()) == 1
    assert not (job.folder / "pid-0").exists()


BROKEN_SSH = """#!/bin/sh
# Like ssh, but beta runs another command.
for word; do last=$word; done
case "$*" in *" beta "*) exec {ssh} beta {command};; *) exec {ssh} "$@";; esac
"""


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exec /no/python -m tnt_launch", "host beta: {python} cannot be executed there"),
        ("exec {python} -I -m tnt_launch_of_nobody", "host beta: {python} has no tarantella there"),
        ("exit 3", "host beta: it ended too early: no message (exit code 3)"),
        (
            "echo a banner; exec sleep 1",
            "host beta: it ended too early: a banner (exit code 0). `{ssh} -x HOST true` must",
        ),
    ],
)
def test_a_host_without_tarantella_is_named(start, cluster, tmp_path, command, why):
    ssh = tmp_path / "ssh"
    command = command.format(python=sys.executable)
    ssh.write_text(BROKEN_SSH.format(ssh=cluster.ssh, command=f"'{command}'"))
    ssh.chmod(0o755)
    exit_code, _, err = start("alpha,beta", "", ssh=f"{ssh} -x").end()
    assert exit_code == 2
    assert why.format(python=sys.executable, ssh=ssh) in err
    assert len(err.splitlines()) == 1


def test_a_login_shell_may_print_something(start, cluster, tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho Welcome; echo Mind the step >&2\nexec {cluster.ssh} "$@"\n')
    ssh.chmod(0o755)
    assert start("alpha,beta", "print(rank)", ssh=str(ssh)).end() == (0, "0\n", "")


def test_the_secret_of_the_job_is_on_no_command_line_and_in_no_file_of_others(start, cluster):
    script = "announce(os.environ['TNT_JOB_SECRET'], f'secret-{rank}')\nwait_for('never')"
    job = start("alpha:1,beta:1", script, "-x", "TNT_TRANSPORT=ucx")
    wait_until(lambda: all((job.folder / f"secret-{rank}").exists() for rank in range(2)))
    secrets = {(job.folder / f"secret-{rank}").read_text() for rank in range(2)}
    assert len(secrets) == 1
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                assert secrets.copy().pop().encode() not in line.read()
        except OSError:
            continue


def test_nothing_listens_for_the_launcher_and_its_agents(start, cluster):
    job = start("alpha:1,beta:1", WAITING)
    [job.pid(f"orphan-{rank}") for rank in range(2)]
    for host in cluster.hosts[:2]:
        sockets = subprocess.run(
            ["ip", "netns", "exec", host.namespace, "ss", "-Hltunp"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        assert [line for line in sockets.splitlines() if "sshd" not in line] == []


@cases("number", [16], thorough=[64])
def test_many_hosts_start_and_end(tmp_path, launch, number):
    """Through a tree; the "hosts" are this one, and what connects them is no ssh."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    hosts = ",".join(f"host{place}" for place in range(number))
    options = ["--ssh", str(ssh), "-H", hosts, "--output-on-all-devices"]
    exit_code, out, err = launch(options, "print('here')").end()
    assert (exit_code, err) == (0, "")
    expected = {"here"} | {f"[{rank}@host{rank}] here" for rank in range(1, number)}
    assert set(out.splitlines()) == expected


def test_cleanup_ends_on_all_hosts_what_lost_its_launcher(start, cluster):
    job = start("alpha:1,beta:1", WAITING)
    [job.pid(f"orphan-{rank}") for rank in range(2)]
    agents = [host.pids("host_agent") for host in cluster.hosts[:2]]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none acts on the death of another
        for pid in [pid for pids in agents for pid in pids]:  # watchdogs among them
            os.kill(pid, number)
    job.end()
    assert cluster.hosts[0].pids("sleep 1000") != []
    command = [sys.executable, "-m", "tnt_launch", "--ssh", cluster.ssh, "-H", "alpha,beta,nowhere"]
    done = subprocess.run(
        [*cluster.prefix, *command, "--cleanup", "--force"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "alpha: job " in done.stdout
    assert "beta: job " in done.stdout
    assert "nowhere: ssh: Could not resolve hostname nowhere" in done.stdout
    assert_nothing_is_left(cluster.hosts)


@cases(
    "before",
    [pytest.param('cd "{folder}"', id="own modules in the folder of the login")],
    thorough=[pytest.param("sleep 8", id="a slow login")],
)
def test_a_login_may_be_slow_and_may_lead_to_a_folder_with_modules(
    start, cluster, tmp_path, before
):
    home = tmp_path / "home"
    home.mkdir()
    for name in ("random", "secrets", "hmac", "psutil"):
        (home / f"{name}.py").write_text("raise SystemExit('my own')")
    ssh = tmp_path / "ssh"
    there = before.format(folder=home)
    ssh.write_text(f"#!/bin/sh\nhost=$1; shift\nexec {cluster.ssh} $host '{there};' \"$@\"\n")
    ssh.chmod(0o755)
    assert start("alpha,beta", "print(rank)", ssh=str(ssh)).end() == (0, "0\n", "")


@pytest.mark.thorough  # as by ssh, above
def test_by_hand_a_cable_that_is_cut_ends_both_sides(tmp_path_factory, tmp_path):
    (tmp_path / "script.py").write_text(PROLOGUE + "wait_for('never')")
    with ssh_cluster(["eta", "theta"], tmp_path_factory.mktemp("hand")) as own:
        launchers = []
        try:
            for node, host in enumerate(own.hosts):
                rendezvous = ["--nnodes", "2", "--node-rank", str(node), "--no-gpu", "-n", "1"]
                where = ["--rendezvous", f"{own.hosts[0].address}:29400", "--", "script.py"]
                command = [
                    "ip",
                    "netns",
                    "exec",
                    host.namespace,
                    sys.executable,
                    "-m",
                    "tnt_launch",
                ]
                secret = {"TNT_JOB_SECRET": "0123456789abcdef"}
                process = spawn([*command, *rendezvous, *where], tmp_path, secret)
                launchers.append(Launched(process, tmp_path))
            launchers[0].pids(2)
            own.hosts[1].cut()
            (code_0, _, err_0), (code_1, _, err_1) = [one.end() for one in launchers]
        finally:
            for one in launchers:
                one.process.kill()
                one.process.communicate()
        assert (code_0, code_1) == (255, 255)
        assert "is lost: nothing was heard from it for 6 s" in err_0
        assert "nothing was heard from it for 6 s" in err_1
        assert_nothing_is_left(own.hosts)
