"""CPUs are described by what the kernel says of them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.numbers import format_ranges
from tnt_launch.planning import cpus
from tnt_launch.planning.cpus import Cpu, describe_cpus, parse_cpu_list


def put_cpu(root, number, siblings, package="0\n"):
    topology = root / "cpu" / f"cpu{number}" / "topology"
    topology.mkdir(parents=True)
    (topology / "thread_siblings_list").write_text(siblings)
    (topology / "physical_package_id").write_text(package)


def put_node(root, number, listed):
    folder = root / "node" / f"node{number}"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text(listed)


def test_cores_packages_and_nodes_are_those_of_the_kernel(tmp_path):
    for number, siblings, package in ((0, "0,4", 0), (1, "1,5", 0), (2, "2,6", 1), (3, "3,7", 1)):
        put_cpu(tmp_path, number, f"{siblings}\n", f"{package}\n")
        put_cpu(tmp_path, number + 4, f"{siblings}\n", f"{package}\n")
    put_node(tmp_path, 0, "0-1,4-5\n")
    put_node(tmp_path, 1, "2-3,6-7\n")
    put_node(tmp_path, 2, "\n")  # memory alone
    (tmp_path / "node" / "possible").write_text("0-2\n")
    assert describe_cpus({6, 0, 4, 3}, tmp_path) == (
        Cpu(0, core=0, package=0, node=0),
        Cpu(3, core=3, package=1, node=1),
        Cpu(4, core=0, package=0, node=0),
        Cpu(6, core=2, package=1, node=1),
    )


@pytest.mark.parametrize("package", ["-1\n", "", "?"])
def test_what_the_kernel_does_not_say_is_one_node_and_a_core_for_each_cpu(tmp_path, package):
    assert describe_cpus({2, 5}, tmp_path) == (Cpu(2, 2, 0, 0), Cpu(5, 5, 0, 0))
    put_cpu(tmp_path, 2, "", package)
    assert describe_cpus({2}, tmp_path) == (Cpu(2, 2, 0, 0),)


def test_the_cpus_of_this_process_are_those_of_its_affinity():
    assert {cpu.number for cpu in cpus.usable_cpus()} == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8\n", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("a-b", ()), ("1-", ()), ("-2", ())],
)
def test_lists_of_cpus_are_read_as_the_kernel_writes_them(text, numbers):
    assert parse_cpu_list(text) == numbers


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_cpus_that_is_written_can_be_read(numbers):
    assert parse_cpu_list(format_ranges(numbers)) == tuple(sorted(numbers))


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", None), ("200000 100000", 2.0), ("150000 100000", 1.5), ("-1 100000", None)],
)
def test_a_quota_is_time_per_period(text, cores):
    assert cpus.parse_cpu_max(text) == cores


def test_an_unreadable_quota_is_no_limit():
    assert cpus.parse_cpu_max("") is None
    assert cpus.parse_cpu_max(" ") is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (2.0, 2), (3.9, 3), (0.5, 1), (64.0, 8)])
def test_cores_are_those_of_the_affinity_or_the_quota_if_lower(monkeypatch, quota, cores):
    monkeypatch.setattr(cpus, "_cgroup_quota", lambda: quota)
    assert cpus.num_usable_cores(8) == cores
