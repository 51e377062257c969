"""What processes of a start need to meet: names of nodes, ports, numbers, and trust."""

import os
import socket
import stat
import threading
import time

import pytest

from tnt_comm.errors import CommError
from tnt_comm.start import munge, slurm
from tnt_comm.start.authentication import (
    AuthenticationError,
    ClientHandshake,
    SameUser,
    ServerHandshake,
    SharedSecret,
)
from tnt_comm.start.endpoints import candidate_ports, listen_at, local_endpoint, reserve_port
from tnt_comm.start.home_secret import home_secret
from tnt_comm.start.numbering import RankPlace, number_ranks
from tnt_comm.start.settings import read_settings
from tnt_comm.start.signed_connection import SignedConnection
from tnt_comm.start.slurm import first_node, node_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-2,5],head", ["n1", "n2", "n5", "head"]),
        ("gpu[08-11]-ib", ["gpu08-ib", "gpu09-ib", "gpu10-ib", "gpu11-ib"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("", []),
    ],
)
def test_a_list_of_nodes_is_that_of_scontrol_show_hostnames(text, names):
    assert list(node_names(text)) == names
    assert first_node(text) == next(iter(names), "")


def test_ranks_of_a_host_follow_each_other_and_hosts_in_the_order_of_their_first():
    places = number_ranks({0: "b", 1: "a", 2: "b", 3: "a", 4: "c"})
    assert places == {
        0: RankPlace(0, 5, 0, 2, 0, 3),
        2: RankPlace(1, 5, 1, 2, 0, 3),
        1: RankPlace(2, 5, 0, 2, 1, 3),
        3: RankPlace(3, 5, 1, 2, 1, 3),
        4: RankPlace(4, 5, 0, 1, 2, 3),
    }


def test_ports_depend_on_job_step_and_restart():
    ports = [candidate_ports(f"slurm {job}") for job in ("7.0.0", "7.1.0", "7.0.1", "8.0.0")]
    assert len(set(ports)) == 4
    assert candidate_ports("slurm 7.0.0") == ports[0]
    assert all(20000 <= port < 32768 for some in ports for port in some)


def test_a_local_name_can_be_had_once_and_is_gone_with_its_owner():
    endpoint = local_endpoint(f"test {os.getpid()}")
    with endpoint.listen():
        with pytest.raises(
            CommError, match="Has another program of the same job also started ranks"
        ):
            endpoint.listen()
        for connection in endpoint.connections():
            connection.close()
    assert endpoint.connections() == []
    endpoint.listen().close()


def test_a_reserved_port_is_free_for_one_that_shares_it_and_for_nobody_else():
    reserved, port = reserve_port("127.0.0.1")
    with reserved, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()


def test_a_port_on_all_interfaces_is_reached():
    with listen_at(0) as listener:
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])).close()


class Ends:
    """Both ends of a connection, which trust each other after `authenticate`."""

    def __init__(self, own, others):
        self._sockets = socket.socketpair()
        self.server, self.client = map(SignedConnection, self._sockets)
        self._others = others
        self._server_handshake = ServerHandshake(self.server, own)
        self._client_handshake = ClientHandshake(self.client, others)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.server.close()
        self.client.close()

    def authenticate(self):
        """Let them exchange what they must."""
        self.move()
        assert not self._client_handshake.advance()
        self.move()
        assert self._server_handshake.advance()
        self.move()
        assert self._client_handshake.advance()
        return self._client_handshake.secret

    def move(self):
        """Let both receive."""
        for connection in (self.server, self.client):
            connection.flush()
            connection.receive()


@pytest.mark.parametrize("trust", [SharedSecret("s" * 16), SameUser()], ids=["secret", "user"])
def test_ends_with_one_secret_trust_each_other_and_sign_what_they_say(trust):
    with Ends(trust, trust if isinstance(trust, SharedSecret) else SameUser()) as ends:
        assert ends.authenticate() == trust.secret({})
        ends.server.send({"place": [1, 2]})
        ends.client.send({"joined": True})
        ends.move()
        assert ends.client.take() == {"place": [1, 2]}
        assert ends.server.take() == {"joined": True}
        assert ends.server.take() is None


def test_an_end_with_another_secret_is_refused_and_hears_it():
    with Ends(SharedSecret("a" * 16), SharedSecret("b" * 16)) as ends:
        with pytest.raises(AuthenticationError, match="does not know the secret"):
            ends.authenticate()
        ends.move()
        with pytest.raises(AuthenticationError, match="the secrets of the two differ"):
            ends._client_handshake.advance()


@pytest.mark.parametrize("change", ["bits", "twice", "back"])
def test_a_message_that_is_changed_repeated_or_sent_back_is_noticed(change):
    with Ends(SharedSecret("s" * 16), SharedSecret("s" * 16)) as ends:
        ends.authenticate()
        ends.client.send({"end": "no"})
        sent = ends._sockets[0].recv(1000)
        told = {"bits": sent.replace(b"no", b"on"), "twice": sent + sent, "back": sent}[change]
        ends._sockets[change != "back"].send(told)
        ends.move()
        receiver = ends.client if change == "back" else ends.server
        if change == "twice":
            assert receiver.take() == {"end": "no"}
        with pytest.raises(CommError, match="without its signature"):
            receiver.take()


@pytest.mark.parametrize("text", [b"GET / HTTP/1.1\r\n\r\n" * 4, b"\0\0\0\0" + b"\0" * 32])
def test_what_is_no_message_is_an_error(text):
    one, other = socket.socketpair()
    with one:
        connection = SignedConnection(other)
        one.send(text)
        connection.receive()
        with pytest.raises(CommError, match=r"of \d+ bytes|no message of a rank"):
            connection.take()
        connection.close()


def test_a_process_of_another_user_is_refused(monkeypatch):
    one, other = socket.socketpair()
    with one, other:
        SameUser().check(one)
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        with pytest.raises(AuthenticationError, match="belongs to another user"):
            SameUser().check(one)


MUNGE = """#!/bin/sh
[ "$1" = --no-input ] || printf '%s ' "$1"
base64 -w0
"""
UNMUNGE = """#!/bin/sh
read -r user text
[ "$text" ] || { echo 'unmunge: Error: Invalid credential' >&2; exit 8; }
[ "$user" = "--restrict-uid=$(id -u)" ] || { echo 'unmunge: Error: Unauthorized' >&2; exit 18; }
printf 'UID:   %s\\n\\n' "$(id -u)"
printf '%s' "$text" | base64 -d
"""


@pytest.fixture
def munge_commands(tmp_path, monkeypatch):
    """Commands that do as those of MUNGE, without encrypting."""
    for name, text in (("munge", MUNGE), ("unmunge", UNMUNGE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def test_a_credential_tells_the_secret_to_processes_of_its_user_and_job(munge_commands):
    assert munge.is_there()
    host = munge.Munge("7.0.0")
    credential = host.invitation()
    assert munge.Munge("7.0.0").secret(credential) == host.secret({})
    with pytest.raises(AuthenticationError, match="belongs to another user or job"):
        munge.Munge("8.0.0").secret(credential)
    with pytest.raises(AuthenticationError, match="not for this user: unmunge: Error: Invalid"):
        munge.Munge("7.0.0").secret({"credential": "x"})


def test_without_the_commands_there_is_no_munge(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not munge.is_there()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without any file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_the_secret_of_the_home_is_made_once_for_its_user_alone(home):
    told = []
    threads = [threading.Thread(target=lambda: told.append(home_secret())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(told) == 8
    assert len(set(told)) == 1
    (file,) = (home / "tarantella").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(told[0]) == 64


def test_a_secret_that_others_may_read_is_refused(home):
    home_secret()
    (home / "tarantella" / "secret").chmod(0o640)
    with pytest.raises(CommError, match="chmod 600"):
        home_secret()


def test_a_secret_that_is_too_short_is_refused(home):
    home_secret()
    (home / "tarantella" / "secret").write_text("short\n")
    with pytest.raises(CommError, match="shorter than 16 characters"):
        home_secret()


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("-1", 600.0), ("soon", 600.0)])
def test_wrong_settings_are_left_to_be_refused_when_the_job_is_joined(text, seconds):
    assert read_settings({"TNT_TIMEOUT_S": text}).timeout_s == seconds


@pytest.mark.parametrize(
    ("title", "is_kept"),
    [("slurmstepd: [7.batch]", False), ("slurmstepd: [7.0]", True), (None, True)],
    ids=["in a batch script", "in a step", "elsewhere"],
)
def test_a_batch_script_has_no_step_though_the_step_that_has_submitted_it(
    title, is_kept, monkeypatch
):
    monkeypatch.setattr(slurm, "daemon_above", lambda: title)
    environment = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0"}
    kept = slurm.without_step_of_other_job(environment)
    assert kept == (environment if is_kept else {"SLURM_JOB_ID": "7"})


COMMANDS = {
    "getent": 'printf "10.0.0.%s STREAM n\\n" "${2#n}"',
    "scontrol": 'echo "NodeName=$4 NodeAddr=10.1.0.1 State=IDLE"',
}


@pytest.mark.parametrize(
    ("changes", "addresses"),
    [
        ({}, ("10.0.0.1",)),
        ({"getent": "exit 2"}, ("10.1.0.1",)),
        ({"getent": "exit 2", "scontrol": "echo 'Node n1 not found'; exit 1"}, ()),
        ({"getent": "exec sleep 5", "scontrol": "exec sleep 5"}, ()),
    ],
    ids=["a resolver", "SLURM", "nobody", "no answer"],
)
def test_an_address_that_is_known_at_once_is_told(changes, addresses, tmp_path, monkeypatch):
    for name, text in {**COMMANDS, **changes}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    within_s = 0.1 if "sleep" in str(changes) else 30
    began = time.monotonic()
    assert slurm.known_addresses_of_node("n1", within_s) == addresses
    assert time.monotonic() - began < (4 if within_s < 1 else 30)


@pytest.mark.parametrize("parent", ["slurmstepd", "bash"])
def test_the_process_of_slurm_above_this_one_is_known_by_its_title(tmp_path, parent):
    process = tmp_path / str(os.getppid())
    process.mkdir()
    (process / "stat").write_text(f"7 ({parent}) S 1 7 7\n")
    (process / "cmdline").write_bytes(f"{parent}: [7.0]\0".encode())
    title = "slurmstepd: [7.0]" if parent == "slurmstepd" else None
    assert slurm.daemon_above(tmp_path) == title
