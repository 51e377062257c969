"""`tarantella doctor` as a user runs it: on this host, on several, and when it is interrupted."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from run_command import DEADLINE_S
from ssh_hosts import ssh_cluster
from ucx_found import has_ucx

LIMIT_S = 60.0
LINE = re.compile(r"^  (ok|note|problem) +(.+?)  +(.*)$")


def start_doctor(*arguments, prefix=(), **variables):
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tnt_launch", "doctor", *arguments],
        env={name: text for name, text in os.environ.items() if not name.startswith("TNT_")}
        | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests in the background of a shell ignore Ctrl-C; this must not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def run_doctor(*arguments, **more):
    """Exit code, lines of each section by the words of their second column, and the last line."""
    process = start_doctor(*arguments, **more)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert err == ""
    *lines, last = out.splitlines()
    sections, section = {}, {}
    for line in lines:
        found = LINE.match(line)
        if found is not None:
            section.setdefault(found[2], []).append((found[1], found[3]))
        elif not line.startswith(" "):
            section = sections[line] = {}
    return process.returncode, sections, last


@pytest.fixture(scope="module")
def this_host():
    return run_doctor(TNT_GPI2_LIBRARY="/nowhere/libGPI2.so")


CHECKS = [
    *("Python", "packages", "shared memory", "networks", "cores", "numactl", "limits"),
    *("sum in memory", "GPI-2", "UCX", "TensorFlow", "GPUs", "Keras", "operations"),
]


def test_every_check_has_a_line(this_host):
    _, sections, _ = this_host
    (found,) = sections.values()
    assert list(found) == CHECKS


@pytest.mark.parametrize("check", ["Python", "packages", "TensorFlow", "Keras", "operations"])
def test_what_the_tests_run_in_is_right(this_host, check):
    _, sections, _ = this_host
    (found,) = sections.values()
    assert [status for status, _ in found[check]] == ["ok"]


def test_two_processes_form_a_sum(this_host):
    _, sections, _ = this_host
    (found,) = sections.values()
    ((status, text),) = found["sum in memory"]
    assert status == "ok"
    assert text.startswith("sum of 2 processes: ")


def test_ucx_is_found_and_tried_where_it_is(this_host):
    _, sections, _ = this_host
    (found,) = sections.values()
    ((status, text),) = found["UCX"]
    assert status == ("ok" if has_ucx() else "note")
    assert ("libucp.so.0, sum of 2 processes: " in text) == has_ucx()


def test_a_library_that_is_named_and_not_there_is_a_problem(this_host):
    exit_code, sections, last = this_host
    (found,) = sections.values()
    ((status, text),) = found["GPI-2"]
    assert status == "problem"
    assert "TNT_GPI2_LIBRARY='/nowhere/libGPI2.so' cannot be loaded" in text
    assert exit_code == 1
    assert "problem" in last


def test_an_interrupt_ends_it_with_all_it_has_started():
    process = start_doctor("-n", "3")
    assert process.stdout.readline().startswith("host ")
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGINT
    end = time.monotonic() + LIMIT_S
    while processes_with("tarantella.doctor.host 3", "-n 3 --no-gpu --bind-to"):
        assert time.monotonic() < end
        time.sleep(0.05)


def processes_with(*words):
    listing = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()
    return [line for line in listing if any(word in line for word in words)]


@pytest.fixture(scope="module")
def three_hosts(tmp_path_factory):
    """The outcome on two hosts, with one between them that cannot be reached."""
    with ssh_cluster(["alpha", "beta"], tmp_path_factory.mktemp("ssh")) as cluster:
        hosts = ["--ssh", cluster.ssh, "-H", "alpha:2,nowhere:2,beta:2"]
        yield run_doctor(*hosts, prefix=cluster.prefix), cluster


def test_a_host_that_is_not_reached_is_a_line_and_others_are_checked(three_hosts):
    (exit_code, sections, last), cluster = three_hosts
    hosts = sections["hosts"]
    assert list(hosts) == ["alpha", "nowhere", "beta"]
    assert [status for host in hosts.values() for status, _ in host] == ["ok", "problem", "ok"]
    assert "Could not resolve hostname nowhere" in hosts["nowhere"][0][1]
    for host in cluster.hosts:
        ((_, text),) = hosts[host.name]
        assert f"address {host.address} (eth0), clock " in text
        assert list(sections[f"host {host.name}"]) == CHECKS
        assert sections[f"host {host.name}"]["operations"][0][0] == "ok"
    assert exit_code == 1
    assert last.startswith("1 problem")


@pytest.mark.skipif(not has_ucx(), reason="hosts need an engine to talk")
def test_the_network_is_measured_through_the_engine(three_hosts):
    (_, sections, _), _ = three_hosts
    between = sections["between the hosts"]
    assert between["versions"] == [("ok", "the same packages on 2 hosts")]
    assert [status for status, _ in between["engine"]] == ["ok"]
    ((status, text),) = between["network"]
    assert status == "ok"
    assert re.fullmatch(r"alpha to beta: [\d.]+ (µs|ms), [\d.]+ [MG]B/s", text)
