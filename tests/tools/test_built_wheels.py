"""Wheels in dist/ are installed instead of the tree if they are of the tree as it is."""

import os
import sys
import time

import built_wheels
import pytest
from source_tree import PACKAGES

VERSION = PACKAGES["tnt-launch"]["project"]["version"]
COMM = PACKAGES["tnt-comm"]["project"]["version"]
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture
def dist(tmp_path):
    """A function that puts empty wheels into a folder, an hour younger than everything."""

    def fill(*names):
        for name in names:
            (tmp_path / name).touch()
            later = time.time() + 3600
            os.utime(tmp_path / name, (later, later))
        return tmp_path

    return fill


def test_a_wheel_of_the_version_is_taken(dist):
    folder = dist(f"tnt_launch-{VERSION}-py3-none-any.whl", "tnt_launch-0.0.1-py3-none-any.whl")
    found = built_wheels.wheels_for_this_python(folder, ["tnt-launch"])
    assert found["tnt-launch"].name == f"tnt_launch-{VERSION}-py3-none-any.whl"


def test_of_several_pythons_the_wheel_of_this_one_is_taken(dist):
    platform = "manylinux_2_28_x86_64.manylinux_2_28_aarch64"
    names = [f"tnt_comm-{COMM}-{tag}-{tag}-{platform}.whl" for tag in ("cp39", TAG)]
    found = built_wheels.wheels_for_this_python(dist(*names), ["tnt-comm"])
    assert found["tnt-comm"].name == names[1]


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["tnt_launch-0.0.1-py3-none-any.whl"],
        [f"tnt_launch-{VERSION}-cp39-cp39-manylinux_2_28_x86_64.whl"],
    ],
)
def test_without_a_wheel_that_fits_the_reason_is_said(dist, names):
    with pytest.raises(LookupError, match=f"has no wheel of tnt-launch {VERSION} for this Python"):
        built_wheels.wheels_for_this_python(dist(*names), ["tnt-launch"])


def test_a_wheel_that_is_older_than_a_source_is_not_taken(dist):
    name = f"tnt_launch-{VERSION}-py3-none-any.whl"
    folder = dist(name)
    os.utime(folder / name, (0, 0))
    with pytest.raises(LookupError, match="is older than the sources of tnt-launch"):
        built_wheels.wheels_for_this_python(folder, ["tnt-launch"])
