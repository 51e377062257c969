"""Each check of `tarantella doctor`, from facts to lines of the table."""

import pytest

from tnt_launch.doctor.command import failure_of_start
from tnt_launch.doctor.facts import Fact
from tnt_launch.doctor.gpu_checks import check_devices, check_gpus, describe_gpus
from tnt_launch.doctor.host_checks import (
    HostChecks,
    check_cores,
    check_engine,
    check_keras,
    check_limits,
    check_networks,
    check_packages,
    check_python,
    check_shared_memory,
    check_tensorflow,
    is_allowed,
)
from tnt_launch.doctor.network_checks import (
    check_equality,
    check_link,
    check_network_engine,
    check_reached,
    check_unreached,
)
from tnt_launch.numbers import bytes_text, rate_text, seconds_text
from tnt_launch.planning.addresses import OwnAddress

PARTS = ("tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch")
PACKAGES = {
    "installed": dict.fromkeys(PARTS, "1.0.0rc1") | {"tensorflow": "2.21.0", "keras": "3.15.1"},
    "required": {part: {} for part in PARTS}
    | {
        "tarantella": {"tnt-comm": "<2,>=1.0.0rc1"},
        "tnt-keras": {"tensorflow": "<2.22,>=2.18", "keras": "<4,>=3.8"},
    },
}
GIB = 1 << 30


@pytest.mark.parametrize(
    ("version", "required", "expected"),
    [
        ("3.11.7", "<3.14,>=3.10", True),
        ("3.14.0rc1", "<3.14,>=3.10", False),
        ("3.9.2", ">=3.10", False),
        ("0.2", "<0.2", False),
        ("0.2.0", "<=0.2", True),
        ("2.21.0.dev3", ">2.20", True),
        ("1.0", "==1", True),
        ("1.5", "!=1.5, >1", False),
        ("not installed", ">=1", False),
        ("1", "", True),
        ("1", "~=2", True),
        ("1.0.0rc1", ">=1.0.0rc1,<2", True),
        ("1.0.0", "<2,>=1.0.0rc1", True),
        ("0.1.0", ">=1.0.0rc1,<2", False),
        ("1.0.0rc1", ">=1.0.0rc2,<2", False),
        ("1.0.0b3", ">=1.0.0rc1", False),
        ("1.0.0rc1", ">=1", False),
        ("2.0.0rc1", ">=1.0.0rc1,<2", False),
    ],
)
def test_version_ranges(version, required, expected):
    assert is_allowed(version, required) is expected


@pytest.mark.parametrize(
    ("number", "text"), [(500, "500 B"), (64 << 20, "64.0 MiB"), (3 * GIB, "3.0 GiB")]
)
def test_bytes(number, text):
    assert bytes_text(number) == text


def test_rates_and_times():
    assert [rate_text(rate) for rate in (91.2e6, 1.25e9)] == ["91.2 MB/s", "1.25 GB/s"]
    times = [seconds_text(time) for time in (5e-6, 4.52e-3, 2)]
    assert times == ["5 µs", "4.52 ms", "2 s"]


def test_a_python_that_is_not_supported_is_a_problem():
    facts = {"version": "3.9.2", "path": "/bin/python", "required": ">=3.10,<3.14"}
    found = check_python(facts)
    assert found.status == "problem"
    assert found.text == "3.9.2, /bin/python; supported is >=3.10,<3.14"
    assert check_python(facts | {"version": "3.13.0"}).status == "ok"


def test_packages_must_be_there_and_fit():
    assert check_packages(PACKAGES).status == "ok"
    installed = PACKAGES["installed"]
    without = check_packages(PACKAGES | {"installed": installed | {"tnt-data": "not installed"}})
    assert (without.status, without.text) == ("problem", "not installed: tnt-data")
    unfit = check_packages(PACKAGES | {"installed": installed | {"tnt-comm": "2.0.1"}})
    assert unfit.status == "problem"
    assert unfit.text == "tarantella 1.0.0rc1 needs tnt-comm<2,>=1.0.0rc1, not 2.0.1"


def test_tensorflow_and_keras_must_be_supported():
    facts = {"version": "2.21.0", "seconds": 2.34}
    assert check_tensorflow(facts, PACKAGES).text == "2.21.0, imported in 2.3 s"
    late = check_tensorflow(facts | {"version": "2.22.0"}, PACKAGES)
    assert late.status == "problem"
    assert late.remedy == 'Run `pip install "tensorflow<2.22,>=2.18"`.'
    keras = {"version": "3.15.1", "backend": "tensorflow"}
    assert check_keras(keras, PACKAGES).status == "ok"
    assert check_keras(keras | {"version": "2.10"}, PACKAGES).status == "problem"
    other = check_keras(keras | {"backend": "torch"}, PACKAGES)
    assert other.status == "problem"
    assert "KERAS_BACKEND=tensorflow" in other.remedy


CORES = {"cpus": 8, "cores": 4, "nodes": 1, "usable": 8, "has_numactl": False}


def test_cores_are_a_note_if_ranks_share_them():
    cores, numactl = check_cores(CORES, 4)
    assert (cores.status, cores.text) == ("ok", "8 CPUs on 4 cores, 1 NUMA node")
    assert (numactl.status, numactl.text) == ("ok", "not found, not needed on one NUMA node")
    assert [found.status for found in check_cores(CORES, 5)] == ["note", "ok"]
    quota, _ = check_cores(CORES | {"usable": 1}, 2)
    assert quota.status == "note"
    assert "but the time of only 1 CPU" in quota.text


def test_numactl_is_missed_on_several_nodes():
    _, numactl = check_cores(CORES | {"nodes": 2}, 1)
    assert numactl.status == "note"
    _, numactl = check_cores(CORES | {"nodes": 2, "has_numactl": True}, 1)
    assert numactl.status == "ok"


@pytest.mark.parametrize(
    ("gpus", "seen", "is_built", "asked", "status", "words"),
    [
        (0, 0, False, None, "ok", "none found"),
        (2, 2, True, None, "ok", "2 GPUs, one for each rank"),
        (2, 2, True, 2, "ok", "2 GPUs"),
        (2, 2, True, 4, "note", "2 GPUs for 4 ranks"),
        (2, 0, False, None, "problem", "built only for CPUs"),
        (2, 1, True, None, "problem", "of which TensorFlow sees 1"),
        (2, None, True, None, "ok", "2 GPUs"),
    ],
)
def test_gpus(gpus, seen, is_built, asked, status, words):
    tensorflow = None if seen is None else {"gpus": seen, "is_built_for_gpus": is_built}
    found = check_gpus({"gpus": [str(number) for number in range(gpus)]}, tensorflow, asked)
    assert found.status == status
    assert words in found.text


def gpu(name, uuid="", model="", pci="", node=-1):
    return {"name": name, "uuid": uuid, "model": model, "pci": pci, "node": node}


H200 = "NVIDIA H200"
TWO_GPUS = {
    "gpus": [
        gpu("0", "GPU-8932f937", H200, "0000:3b:00.0", 0),
        gpu("MIG-1c", "MIG-1c", f"{H200} MIG 1g.18gb", "0000:af:00.0", 1),
    ],
    "driver": "NVIDIA 580.65.06",
    "remark": "",
}


def test_the_driver_and_each_gpu_have_a_line():
    assert [(found.status, found.check, found.text) for found in describe_gpus(TWO_GPUS)] == [
        ("ok", "GPU driver", "NVIDIA 580.65.06"),
        ("ok", "GPU", "0: NVIDIA H200, GPU-8932f937, 0000:3b:00.0, NUMA node 0"),
        ("ok", "GPU", "MIG-1c: NVIDIA H200 MIG 1g.18gb, 0000:af:00.0, NUMA node 1"),
    ]


def test_what_is_not_known_of_gpus_is_left_out():
    assert list(describe_gpus({"gpus": [], "driver": "", "remark": ""})) == []
    driver, stated = describe_gpus({"gpus": [gpu("0")], "driver": "", "remark": ""})
    assert (driver.text, stated.text) == ("its version is not known", "0: nothing else is known")


def test_a_list_of_gpus_that_is_odd_is_a_note():
    driver, odd = describe_gpus({"gpus": [], "driver": "NVIDIA 1", "remark": "9 is no GPU."})
    assert driver.status == "ok"
    assert (odd.status, odd.check, odd.text) == ("note", "list of GPUs", "9 is no GPU.")
    assert "nvidia-smi -L" in odd.remedy


def devices(size=2, apart=(), **differing):
    """What `tnt_comm.describe_devices()` returns."""
    described = {"name": H200, "pci": "0000:3b:00.0", "uuid": "GPU-1", "total_bytes": 139 * GIB}
    return {
        "is_available": True,
        "reason": "",
        "driver_version": 12080,
        "devices": [described] * size,
        "can_access_peer": [
            [(one, other) not in apart for other in range(size)] for one in range(size)
        ],
        "engine": "ipc",
        "why": "All GPUs of the host reach each other.",
        **differing,
    }


def lines_of(facts, num_gpus=2):
    return [(found.status, found.check, found.text) for found in check_devices(facts, num_gpus)]


@pytest.mark.parametrize(
    ("size", "apart", "status", "text"),
    [
        (4, [], "ok", "each of the 4 GPUs reaches all others directly"),
        (2, [(0, 1)], "note", "none of the 2 GPUs reaches another directly"),
        (
            3,
            [(2, 0), (1, 2), (2, 1)],
            "note",
            "these do not reach each other directly: 0 and 2, 1 and 2",
        ),
    ],
)
def test_gpus_that_do_not_reach_each_other_are_named(size, apart, status, text):
    assert lines_of(devices(size, apart))[0] == (status, "GPU peers", text)


@pytest.mark.parametrize(
    ("engine", "version", "status", "text"),
    [
        (
            "ipc",
            12080,
            "ok",
            "on the GPUs, which read each other's memory (ipc, driver for CUDA 12.8)",
        ),
        (
            "host",
            13000,
            "note",
            "in the memory of the host, to and from which they are copied (host, driver for CUDA "
            "13.0)",
        ),
    ],
)
def test_the_engine_that_sums_gradients_of_gpus_is_told_with_the_reason(
    engine, version, status, text
):
    facts = devices(1, engine=engine, driver_version=version, why="So it is.")
    assert lines_of(facts) == [(status, "GPU sums", f"{text}: So it is.")]


def test_an_engine_that_cannot_be_had_is_a_problem():
    (found,) = check_devices(devices(1, engine="none", why="That cannot be had."), 1)
    assert (found.status, found.text) == ("problem", "That cannot be had.")
    assert found.remedy == "Set TNT_GPU_SUMS to auto, or to host."


def test_without_gpus_there_is_nothing_to_say_of_their_sums():
    none = devices(0, is_available=False, reason="There is no driver.", engine="none")
    assert lines_of(none, num_gpus=0) == lines_of({"lacking": "1.0.0rc2"}, num_gpus=0) == []
    text = "tnt-comm finds no GPU: There is no driver."
    assert lines_of(none) == [("note", "GPU sums", text)]


def test_an_older_tnt_comm_is_told():
    text = "tnt-comm 1.0.0rc2 cannot tell what sums gradients of GPUs"
    assert lines_of({"lacking": "1.0.0rc2"}) == [("note", "GPU sums", text)]
    found = findings_of(Fact("gpus", TWO_GPUS), Fact("devices", {"lacking": "1.0.0rc2"}))
    assert found[-1].text == text
    assert findings_of(Fact("devices", {"lacking": "1.0.0rc2"})) == []


def test_a_driver_of_gpus_that_hangs_is_a_problem_of_their_sums():
    (found,) = findings_of(Fact("failure", {"check": "GPU sums", "why": "it did not end"}))
    assert (found.status, found.check) == ("problem", "GPU sums")
    assert "nvidia-smi" in found.remedy


@pytest.mark.parametrize(
    ("free", "status"), [(GIB, "ok"), (100 << 20, "note"), (10 << 20, "problem")]
)
def test_shared_memory(free, status):
    found = check_shared_memory({"free": free, "total": 2 * GIB})
    assert found.status == status
    assert ("--shm-size" in found.remedy) == (status != "ok")


def test_shared_memory_that_cannot_be_used():
    found = check_shared_memory({"why": "Permission denied"})
    assert found.status == "problem"
    assert found.text == "/dev/shm cannot be used: Permission denied"


LIMITS = {"open_files": 1024, "processes": 4096, "locked_memory": 8 << 20, "is_root": False}


@pytest.mark.parametrize(
    ("limits", "size", "has_infiniband", "status", "remedy"),
    [
        ({}, 2, False, "ok", ""),
        ({}, 2, True, "note", "ulimit -l unlimited"),
        ({"locked_memory": None}, 2, True, "ok", ""),
        ({"open_files": 512}, 2, False, "note", "ulimit -n 1024"),
        ({"open_files": 100}, 2, False, "problem", "ulimit -n 1024"),
        ({}, 512, False, "problem", "ulimit -n 1736"),
        ({"open_files": None}, 512, False, "ok", ""),
        ({"processes": 100}, 2, False, "problem", "ulimit -u 160"),
        ({"processes": 100, "is_root": True}, 2, False, "ok", ""),
    ],
)
def test_limits(limits, size, has_infiniband, status, remedy):
    found = check_limits(LIMITS | limits, 4, 2, size, has_infiniband)
    assert found.status == status
    assert remedy in found.remedy
    assert "processes and threads" in found.text


@pytest.mark.parametrize(
    ("interface", "status"),
    [("", "ok"), ("eth0", "ok"), ("10.0.0.0/8", "ok"), ("eth1", "problem")],
)
def test_networks(interface, status):
    addresses = [["lo", "127.0.0.1"], ["eth0", "10.1.2.3"]]
    found = check_networks({"addresses": addresses, "infiniband": ["mlx5_0"]}, interface)
    assert found.status == status
    assert "eth0 10.1.2.3, InfiniBand mlx5_0" in found.text


RIGHT = {"size": 2, "is_right": True, "latency_s": 5e-6, "bytes_per_s": 2e9, "library": None}
GPI2 = {"engine": "gpi2", "path": "/lib/libGPI2.so", "version": "1.6.0", "network": "Ethernet"}


def test_engines_that_work():
    found = check_engine({"engine": "shm", **RIGHT})
    assert (found.status, found.check) == ("ok", "sum in memory")
    assert found.text == "sum of 2 processes: 5 µs, 2 GB/s"
    found = check_engine({"engine": "gpi2", **RIGHT, "library": GPI2})
    assert found.text.startswith("1.6.0 for Ethernet, /lib/libGPI2.so, sum of 2")


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"engine": "gpi2", "why": "No GPI-2 library was found (libGPI2.so: ...)."}, "note"),
        ({"engine": "ucx", "why": "TNT_UCX_LIBRARY='/x' cannot be loaded"}, "problem"),
        ({"engine": "shm", "why": "no space"}, "problem"),
        ({"engine": "shm", **RIGHT, "is_right": False}, "problem"),
    ],
)
def test_engines_that_do_not_work(facts, status):
    found = check_engine(facts)
    assert found.status == status
    assert found.remedy


def findings_of(*facts, asked=None):
    checks = HostChecks(asked, 1, "")
    return [found for fact in facts for found in checks.take(fact)]


def begin(check):
    return Fact("begin", {"check": check})


def test_gpus_are_checked_when_tensorflow_has_been_imported_or_not():
    known = [Fact("packages", PACKAGES), Fact("gpus", TWO_GPUS)]
    seen = {"version": "2.21.0", "seconds": 1.0, "gpus": 0, "is_built_for_gpus": False}
    found = findings_of(*known, Fact("tensorflow", seen))
    of_driver = ["GPU driver", "GPU", "GPU"]
    assert [one.check for one in found] == ["packages", *of_driver, "TensorFlow", "GPUs"]
    assert found[-1].status == "problem"
    failure = Fact("failure", {"check": "TensorFlow", "why": "it was killed by SIGILL"})
    found = findings_of(*known, failure)
    assert [(one.check, one.status) for one in found[4:]] == [
        ("TensorFlow", "problem"),
        ("GPUs", "ok"),
    ]


def test_gpus_that_only_the_driver_of_cuda_has_are_a_note_of_both_lines():
    none = {"gpus": [], "driver": "", "remark": ""}
    seen = {"version": "2.21.0", "seconds": 1.0, "gpus": 0, "is_built_for_gpus": False}
    facts = [Fact("packages", PACKAGES), Fact("gpus", none), Fact("devices", devices(2))]
    *_, sums, _, gpus = findings_of(*facts, Fact("tensorflow", seen))
    assert sums.check == "GPU sums"
    assert (gpus.status, gpus.check, gpus.text) == (
        "note",
        "GPUs",
        "neither nvidia-smi nor /proc/driver/nvidia shows a GPU, so ranks run on CPUs; CUDA's "
        "driver has 2 GPUs",
    )
    assert "TNT_GPUS_PER_NODE=2" in gpus.remedy


def test_a_test_that_hangs_is_a_problem_of_its_engine():
    why = "it did not end within 45 s"
    (found,) = findings_of(Fact("failure", {"check": "engine ucx", "why": why}))
    assert (found.status, found.check, found.text) == ("problem", "UCX", why)


def test_a_process_that_fails_is_a_problem_of_the_check_it_was_at():
    checks = HostChecks(None, 1, "")
    assert list(checks.take(begin("hardware"))) == []
    (found,) = failure_of_start(checks, "exit code 1: no driver")
    assert (found.status, found.check, found.text) == (
        "problem",
        "hardware",
        "exit code 1: no driver",
    )


def test_a_host_without_the_package_is_told_so():
    why = "exit code 1: /bin/python: No module named tarantella"
    (found,) = failure_of_start(HostChecks(None, 1, ""), why)
    assert (found.status, found.check) == ("problem", "packages")
    assert "the package tarantella is not installed" in found.text


def test_hosts_that_are_reached():
    own = [OwnAddress("eth0", "10.0.0.2")]
    found = check_reached("a", "0.1.0", 0.0123, own, "10.0.0.2", "ssh")
    assert found.status == "ok"
    assert found.text == (
        "reached through ssh, tnt-launch 0.1.0, address 10.0.0.2 (eth0), clock +12.3 ms"
    )
    assert check_reached("a", "0.1.0", -1.5, own, "", "qrsh").status == "note"
    assert (
        check_reached("a", "", None, own, "", "ssh").text == "this host, tnt-launch (not installed)"
    )


def test_hosts_that_are_not_reached():
    found = check_unreached("a", "ssh: no route")
    assert (found.status, found.check, found.text) == ("problem", "a", "ssh: no route")
    assert "`ssh a true`" in found.remedy


def test_hosts_need_equal_versions():
    one = {"tarantella": "0.1.0", "numpy": "2.0", "python": "3.11.2"}
    assert list(check_equality({"a": one})) == []
    (found,) = check_equality({"a": one, "b": one})
    assert (found.status, found.text) == ("ok", "the same packages on 2 hosts")
    unlike = {"tarantella": "0.1.1", "numpy": "2.1", "python": "3.11.2"}
    found = list(check_equality({"a": one, "b": one, "c": unlike}))
    assert [(line.status, line.text) for line in found] == [
        ("problem", "tarantella: a 0.1.0, c 0.1.1"),
        ("note", "numpy: a 2.0, c 2.1"),
    ]


def test_links_that_are_slow_are_a_note():
    facts = {"pair": [0, 2], "latency_s": 4.5e-5, "bytes_per_s": 1e9}
    found = check_link(["a", "b", "c"], facts, 1e9)
    assert (found.status, found.text) == ("ok", "a to c: 45 µs, 1 GB/s")
    slow = check_link(["a", "b", "c"], facts, 5e9)
    assert slow.status == "note"
    assert slow.text.endswith("others have 5 GB/s")


def test_the_engine_between_hosts():
    assert check_network_engine(GPI2).text == "GPI-2 1.6.0 for Ethernet, /lib/libGPI2.so"
