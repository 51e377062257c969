"""GPUs are counted and named as a process started here would see them."""

import pytest

from tnt_launch.errors import LaunchError
from tnt_launch.planning import visible_gpus as gpus
from tnt_launch.planning.gpu_drivers import Gpu, InstalledGpu
from tnt_launch.planning.visible_gpus import FoundGpus, warnings_of_gpus

UUIDS = ("GPU-8932f937", "GPU-8a00c1d2", "GPU-f0f0a1b2", "GPU-00aa11bb")


def installed(count, models=("A",), uuids=UUIDS):
    """GPUs on as many NUMA nodes."""
    return [
        InstalledGpu(Gpu(str(n), uuids[n], models[n % len(models)], f"0000:0{n}:00.0", n))
        for n in range(count)
    ]


def names_of(found):
    return tuple(gpu.name for gpu in found.gpus)


def nodes_of(found):
    return [gpu.node for gpu in found.gpus]


def shown(listed, count=4, **variables):
    return gpus.visible_gpus(installed(count), {"CUDA_VISIBLE_DEVICES": listed, **variables})


@pytest.mark.parametrize(
    ("listed", "count", "is_odd"),
    [
        ("", 0, False),
        ("-1", 0, False),
        ("NoDevFiles", 0, False),
        ("none", 0, False),
        ("0", 1, False),
        ("3,1", 2, False),
        (" 0 , 2 ", 2, False),
        ("0,-1,2", 1, False),
        ("0,4,1", 1, True),
        ("all", 0, True),
        ("GPU-8932,GPU-f0", 2, False),
        ("GPU-8932,GPU-77,0", 1, True),
        ("GPU-8", 0, True),  # two begin so
        ("MIG-3c", 1, False),  # nothing is known of parts
    ],
)
def test_visible_gpus_are_those_before_the_first_wrong_entry(listed, count, is_odd):
    for found in (
        shown(listed),
        gpus.visible_amd_gpus(installed(4), {"HIP_VISIBLE_DEVICES": listed}),
    ):
        assert len(found.gpus) == count
        assert found.listed.endswith(f"_VISIBLE_DEVICES={listed}")
        assert bool(found.remark) == is_odd
    assert len(gpus.visible_gpus(installed(4), {}).gpus) == 4


def test_an_entry_that_names_no_gpu_is_told():
    assert shown("0,4,1").remark == (
        "CUDA_VISIBLE_DEVICES=0,4,1 names 4, which is not one of the 4 GPUs here. As CUDA does, "
        "tarantella uses only the 1 before it. Correct the list. [unknown-gpu]"
    )


@pytest.mark.parametrize(
    ("listed", "num_used", "problem"),
    [
        ("0,GPU-8,1", 1, "GPU-8, which is ambiguous: it fits GPU-8932f937, GPU-8a00c1d2"),
        ("MIG-", 0, "MIG-, which is ambiguous: it fits MIG-1c, MIG-2d"),
        ("gpu-8", 0, "gpu-8, which is not one of the 2 GPUs here"),
    ],
)
def test_an_abbreviated_uuid_that_fits_several_gpus_is_told_with_them(listed, num_used, problem):
    found = gpus.visible_gpus(divided(), {"CUDA_VISIBLE_DEVICES": listed})
    assert found.remark == (
        f"CUDA_VISIBLE_DEVICES={listed} names {problem}. As CUDA does, tarantella uses only the "
        f"{num_used} before it. Correct the list. [unknown-gpu]"
    )
    assert len(found.gpus) == num_used


def test_an_ambiguous_uuid_is_not_believed_if_the_driver_does_not_tell_another():
    some = installed(3, uuids=["GPU-8932f937", "GPU-8a00c1d2", ""])
    assert gpus.visible_gpus(some, {"CUDA_VISIBLE_DEVICES": "GPU-8"}).gpus == ()


def test_without_a_gpu_none_is_visible_whatever_is_listed():
    listed = {"CUDA_VISIBLE_DEVICES": "GPU-1a2b", "ROCR_VISIBLE_DEVICES": "0"}
    assert gpus.visible_gpus((), listed) == FoundGpus(())
    assert gpus.visible_amd_gpus((), listed) == FoundGpus(())


def test_visible_gpus_are_named_as_the_user_names_them_and_keep_their_places():
    found = gpus.visible_gpus(installed(2), {})
    assert (names_of(found), nodes_of(found), found.listed) == (("0", "1"), [0, 1], "")
    found = shown("3, GPU-8a,1")
    assert (names_of(found), nodes_of(found)) == (("3", "GPU-8a", "1"), [3, 1, 1])
    assert found.listed == "CUDA_VISIBLE_DEVICES=3, GPU-8a,1"


def test_an_unknown_uuid_is_believed_if_the_driver_tells_none():
    unknown = installed(1, uuids=[""])
    found = gpus.visible_gpus(unknown, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"})
    assert (names_of(found), nodes_of(found), found.remark) == (("GPU-1a2b",), [-1], "")


def test_of_different_models_cudas_order_is_unknown_unless_it_is_that_of_addresses():
    mixed = installed(2, models=("A", "B"))
    assert nodes_of(gpus.visible_gpus(mixed, {})) == [-1, -1]
    assert names_of(gpus.visible_gpus(mixed, {})) == ("0", "1")
    by_address = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert nodes_of(gpus.visible_gpus(mixed, by_address)) == [0, 1]
    listed = {"CUDA_VISIBLE_DEVICES": "1,GPU-8932f937"}
    assert nodes_of(gpus.visible_gpus(mixed, listed)) == [-1, 0]
    assert nodes_of(gpus.stated_gpus(2, mixed, listed)) == [-1, 0]


def divided():
    """A whole GPU, and one that has two parts."""
    whole, other = installed(2)
    parts = [
        Gpu(name, name, "A MIG 1g", other.gpu.pci, other.gpu.node) for name in ("MIG-1c", "MIG-2d")
    ]
    return [whole, other._replace(parts=tuple(parts))]


def test_without_a_list_each_part_of_a_gpu_is_one():
    found = gpus.visible_gpus(divided(), {})
    assert names_of(found) == ("GPU-8932f937", "MIG-1c", "MIG-2d")
    assert nodes_of(found) == [0, 1, 1]


@pytest.mark.parametrize(
    ("listed", "names", "nodes"),
    [
        ("MIG-2d,MIG-1c", ("MIG-2d", "MIG-1c"), [1, 1]),
        ("MIG-2", ("MIG-2",), [1]),
        (
            "MIG-GPU-8a00c1d2/7/0,MIG-GPU-8a00c1d2/8/0",
            ("MIG-GPU-8a00c1d2/7/0", "MIG-GPU-8a00c1d2/8/0"),
            [1, 1],
        ),
        ("MIG-9", (), []),
        ("0,MIG-1c", ("0", "MIG-1c"), [0, 1]),
    ],
)
def test_parts_are_listed_by_either_of_their_names(listed, names, nodes):
    found = gpus.visible_gpus(divided(), {"CUDA_VISIBLE_DEVICES": listed})
    assert (names_of(found), nodes_of(found)) == (names, nodes)
    assert bool(found.remark) == (listed == "MIG-9")
    assert warnings_of_gpus("alpha", found, len(names)) == (
        [f"alpha: {found.remark}"] if found.remark else []
    )


@pytest.mark.parametrize(
    ("rocr", "hip", "cuda", "names", "nodes"),
    [
        (None, None, None, ("0", "1", "2", "3"), [0, 1, 2, 3]),
        (None, "3,1", None, ("3", "1"), [3, 1]),
        (None, None, "3,1", ("3", "1"), [3, 1]),
        (None, "2", "3,1", ("2",), [2]),
        ("2,3", None, None, ("0", "1"), [2, 3]),
        ("GPU-8a,GPU-f0,0", "2,0", None, ("2", "0"), [0, 1]),
        ("2,3", "1,2", None, ("1",), [3]),
        ("", None, None, (), []),
        (None, "", "0", (), []),
    ],
)
def test_gpus_of_amd_are_numbered_anew_below_hip(rocr, hip, cuda, names, nodes):
    lists = {"ROCR": rocr, "HIP": hip, "CUDA": cuda}
    environment = {f"{k}_VISIBLE_DEVICES": v for k, v in lists.items() if v is not None}
    found = gpus.visible_amd_gpus(installed(4), environment)
    assert (names_of(found), nodes_of(found)) == (names, nodes)


@pytest.mark.parametrize(
    ("environment", "names", "nodes"),
    [
        ({}, ("0", "1"), [0, 1]),
        ({"CUDA_VISIBLE_DEVICES": "2,3,4"}, ("2", "3"), [2, -1]),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, ("1", "0"), [1, 0]),
        ({"ROCR_VISIBLE_DEVICES": "1,2"}, ("0", "1"), [1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1,0"}, ("1", "0"), [2, 1]),
    ],
)
def test_a_stated_number_of_gpus_is_taken_from_the_users_list(environment, names, nodes):
    found = gpus.stated_gpus(2, installed(3), environment)
    assert (names_of(found), nodes_of(found)) == (names, nodes)
    assert names_of(gpus.stated_gpus(2, (), environment)) == names


@pytest.mark.parametrize("runtime", ["CUDA", "HIP", "ROCR"])
def test_more_gpus_stated_than_listed_is_an_error(runtime):
    name = f"{runtime}_VISIBLE_DEVICES"
    with pytest.raises(LaunchError, match=f"TNT_GPUS_PER_NODE=3, but {name}=0,1"):
        gpus.stated_gpus(3, (), {name: "0,1"})


@pytest.mark.parametrize(
    ("listed", "num_used", "is_shared"),
    [("0,1", 2, False), ("0,0", 2, True), ("0,0", 1, False), ("0,GPU-8932f9", 2, True)],
)
def test_ranks_that_share_a_gpu_are_told(listed, num_used, is_shared):
    warning = (
        f"alpha: CUDA_VISIBLE_DEVICES={listed} names GPU 0 for 2 ranks, which share its time and "
        "memory. List each GPU once to give each rank its own. [shared-gpu]"
    )
    assert warnings_of_gpus("alpha", shown(listed), num_used) == [warning] * is_shared


def test_gpus_of_amd_are_looked_for_where_there_is_none_of_nvidia(monkeypatch):
    lists = {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "2,3"}
    monkeypatch.setattr(gpus, "amd_gpus", lambda: installed(4))
    for num_nvidia, names in ((2, ("1",)), (0, ("2", "3"))):
        monkeypatch.setattr(gpus, "nvidia_gpus", lambda count=num_nvidia: installed(count))
        assert names_of(gpus.find_gpus(lists)) == names
        assert names_of(gpus.find_gpus(lists, stated=1)) == ("1",)


def test_if_no_gpu_is_stated_none_is_looked_for(monkeypatch):
    monkeypatch.setattr(gpus, "nvidia_gpus", lambda: pytest.fail("looked"))
    assert gpus.find_gpus({"CUDA_VISIBLE_DEVICES": "0"}, stated=0) == FoundGpus(())
