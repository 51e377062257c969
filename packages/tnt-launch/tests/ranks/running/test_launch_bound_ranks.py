"""Ranks run where the plan keeps them."""

import os
import re
import shutil
import subprocess

import pytest
from launched import environment, listen_to_signals

from tnt_launch.planning.cpus import usable_cpus

CPUS = usable_cpus()
LAST_CPU = CPUS[-1].number
CORES = sorted({cpu.core for cpu in CPUS})
TELL = """
cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
with open(f"cpus-{rank}", "w") as file:
    file.write(cpus + " " + os.environ.get("TNT_NUM_THREADS", "-"))
"""

needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one physical core is usable here")


def keep_on_last_cpu():
    """To be called in the process of a launcher."""
    listen_to_signals()
    os.sched_setaffinity(0, {LAST_CPU})


def told(folder, rank):
    """CPUs and threads that a rank found."""
    cpus, threads = (folder / f"cpus-{rank}").read_text().split()
    return {int(cpu) for cpu in cpus.split(",")}, threads


@needs_two_cores
def test_ranks_have_cores_of_their_own_and_say_so(launch, tmp_path):
    exit_code, _, err = launch(["-n", "2", "--bind-to", "core", "--report-bindings"], TELL).end()
    assert exit_code == 0, err
    found = [told(tmp_path, rank) for rank in range(2)]
    assert found[0][0].isdisjoint(found[1][0])
    assert found[0][0] | found[1][0] == {cpu.number for cpu in CPUS}
    assert {threads for _, threads in found} == {str(len(CORES) // 2)}
    lines = err.splitlines()
    for rank in range(2):
        said = re.compile(rf"tarantella: rank {rank} on \S+: cpus [\d,-]+ \(NUMA node.*, no GPU")
        assert any(map(said.fullmatch, lines)), err


@needs_two_cores
def test_the_commands_of_a_dry_run_keep_ranks_where_the_launcher_does(launch, tmp_path):
    options = ["-n", "2", "--bind-to", "core"]
    assert launch(options, TELL).end()[0] == 0
    executed = [told(tmp_path, rank) for rank in range(2)]
    printed = launch([*options, "--dry-run"], TELL).end()[1]
    subprocess.run(["sh"], input=printed.encode(), env=environment(), timeout=60, check=True)
    assert [told(tmp_path, rank) for rank in range(2)] == executed


def test_ranks_stay_on_the_cpus_that_were_given_to_the_launcher(launch, tmp_path):
    for options in (["-n", "1", "--bind-to", "core"], ["-n", "2", "--bind-to", "numa"]):
        assert launch(options, TELL, preexec_fn=keep_on_last_cpu).end()[0] == 0
        assert told(tmp_path, 0) == ({LAST_CPU}, "1")
    exit_code, _, err = launch(
        ["-n", "2", "--bind-to", "core"], TELL, preexec_fn=keep_on_last_cpu
    ).end()
    assert exit_code == 2
    assert "has 1 for 2 ranks. Give -n 1 or less, or --bind-to numa." in err


def test_ranks_that_are_not_to_be_bound_keep_all_cpus(launch, tmp_path):
    exit_code, _, err = launch(["-n", "2", "--bind-to", "none", "--report-bindings"], TELL).end()
    assert exit_code == 0
    assert told(tmp_path, 1)[0] == {cpu.number for cpu in CPUS}
    assert err.count(": not bound, ") == 2


def allows_numactl():
    """Whether numactl is there, and may do what it is for, which containers can forbid."""
    if shutil.which("numactl") is None:
        return False
    node = CPUS[0].node
    command = ["numactl", f"--cpunodebind={node}", f"--membind={node}", "true"]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not allows_numactl(), reason="numactl is not there, or may not bind memory")
def test_numactl_keeps_cpus_and_memory_of_a_rank_on_a_node(launch, tmp_path):
    script = TELL + 'print("memory", open("/proc/self/numa_maps").readline().split()[1])'
    options = ["-n", "1", "--pin-to-socket", "--pin-memory-to-socket", "--report-bindings"]
    exit_code, out, err = launch(options, script).end()
    node = CPUS[0].node
    assert exit_code == 0, err
    assert told(tmp_path, 0)[0] == {cpu.number for cpu in CPUS if cpu.node == node}
    assert out == f"memory bind:{node}\n"
    assert f"(NUMA node {node})" in err


@pytest.mark.skipif(not allows_numactl(), reason="numactl is not there, or may not bind memory")
def test_numactl_stays_on_the_cpus_that_were_given_to_the_launcher(launch, tmp_path):
    assert launch(["-n", "1", "--pin-to-socket"], TELL, preexec_fn=keep_on_last_cpu).end()[0] == 0
    assert told(tmp_path, 0)[0] == {LAST_CPU}


def test_without_numactl_nothing_is_started(launch, tmp_path):
    only_here = {"PATH": str(tmp_path)}
    exit_code, _, err = launch(["-n", "1", "--pin-to-socket"], TELL, env=only_here).end()
    assert exit_code == 2
    assert "Install the package numactl there" in err
    assert not (tmp_path / "pid-0").exists()
