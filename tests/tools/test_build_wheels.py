"""A release's wheels say truly what they run on, and pip is told their very versions."""

import tarfile
from pathlib import Path

import build_wheels
import pytest
from packaging.requirements import Requirement
from source_tree import PACKAGES


@pytest.mark.parametrize(
    ("platforms", "is_newer"),
    [
        ("manylinux_2_28_x86_64", False),
        ("manylinux_2_26_x86_64.manylinux_2_27_x86_64", False),
        ("manylinux_2_34_x86_64", True),
        ("manylinux_2_5_x86_64", False),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", False),
    ],
)
def test_a_wheel_that_needs_a_later_glibc_is_seen(platforms, is_newer):
    wheel = Path(f"tnt_comm-1.0.0-cp311-cp311-{platforms}.whl")
    assert build_wheels.is_newer_than(wheel, "manylinux_2_28_x86_64") == is_newer


def test_constraints_name_each_package_with_its_version(tmp_path):
    build_wheels.write_constraints(tmp_path)
    lines = (tmp_path / build_wheels.CONSTRAINTS).read_text().splitlines()
    found = {each.name: str(each.specifier) for each in map(Requirement, lines)}
    assert found == {n: f"=={table['project']['version']}" for n, table in PACKAGES.items()}


def test_files_of_earlier_versions_are_those_of_the_package_alone(tmp_path):
    of_package = ["tnt_comm-0.1.0.tar.gz", "tnt_comm-0.1.0-cp311-cp311-linux_x86_64.whl"]
    for name in (*of_package, "tnt_data-0.1.0.tar.gz", "constraints.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in build_wheels.files_of("tnt-comm", tmp_path)] == of_package


def test_wheels_of_other_pythons_stay_unless_the_sources_have_changed(tmp_path):
    other = tmp_path / "tnt_comm-1.0.0-cp310-cp310-manylinux_2_28_x86_64.whl"
    other.touch()
    build_wheels.write_fingerprints(tmp_path, {"tnt-comm": "1"})
    build_wheels.remove_outdated(tmp_path, {"tnt-comm": "1"})
    assert other.exists()
    build_wheels.remove_outdated(tmp_path, {"tnt-comm": "2"})
    assert not other.exists()


def test_what_builds_in_the_tree_have_left_is_found_in_an_sdist(tmp_path):
    sdist = tmp_path / "tnt_comm-1.0.0.tar.gz"
    left = ["tnt_comm-1.0.0/build/editable/CMakeCache.txt", "tnt_comm-1.0.0/src/tnt_comm/_core.so"]
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*left, "tnt_comm-1.0.0/cpp/base/error.cpp"):
            archive.addfile(tarfile.TarInfo(name))
    assert build_wheels.compiled_files(sdist) == left
