"""Wheels in dist/ are installed instead of the tree if they were built from it as it is."""

import json
import sys

import built_wheels
import pytest
from source_tree import PACKAGES

VERSION = PACKAGES["tnt-launch"]["project"]["version"]
COMM = PACKAGES["tnt-comm"]["project"]["version"]
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture
def dist(tmp_path):
    """A function that puts empty wheels into a folder, as if they were built from the tree."""

    def fill(*names):
        for name in names:
            (tmp_path / name).touch()
        built_from = {
            name: built_wheels.fingerprint_of(name) for name in ("tnt-launch", "tnt-comm")
        }
        (tmp_path / built_wheels.FINGERPRINTS).write_text(json.dumps(built_from))
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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The sources of tnt-launch in a tree of their own."""
    monkeypatch.setattr(built_wheels, "ROOT", tmp_path)
    sources = tmp_path / "packages/tnt-launch/src/tnt_launch"
    sources.mkdir(parents=True)
    (sources / "numbers.py").write_text("ONE = 1")
    (sources / "errors.py").write_text("")
    (tmp_path / "tools").mkdir()
    for name in built_wheels.BUILT_BY:
        (tmp_path / "tools" / name).touch()
    return sources


@pytest.mark.parametrize(
    "change",
    [
        lambda sources: (sources / "numbers.py").write_text("ONE = 2"),
        lambda sources: (sources / "errors.py").unlink(),
        lambda sources: (sources / "numbers.py").rename(sources / "numerals.py"),
        lambda sources: (sources / "new.py").touch(),
        lambda sources: (built_wheels.ROOT / "tools/zig_compiler.py").write_text("FLAGS = []"),
    ],
    ids=["edited", "removed", "renamed", "added", "compiled otherwise"],
)
def test_a_wheel_of_other_sources_is_not_taken(package, dist, change):
    folder = dist(f"tnt_launch-{VERSION}-py3-none-any.whl")
    assert built_wheels.wheels_for_this_python(folder, ["tnt-launch"])
    change(package)
    with pytest.raises(LookupError, match="was built from other sources of tnt-launch"):
        built_wheels.wheels_for_this_python(folder, ["tnt-launch"])


def test_what_builds_and_imports_leave_behind_is_no_source(package):
    before = built_wheels.fingerprint_of("tnt-launch")
    (package / "__pycache__").mkdir()
    (package / "__pycache__/numbers.cpython-311.pyc").touch()
    (package / "libtnt.so").touch()
    assert built_wheels.fingerprint_of("tnt-launch") == before


def test_wheels_of_which_nothing_is_known_are_not_taken(dist):
    folder = dist(f"tnt_launch-{VERSION}-py3-none-any.whl")
    (folder / built_wheels.FINGERPRINTS).unlink()
    with pytest.raises(LookupError, match="was built from other sources"):
        built_wheels.wheels_for_this_python(folder, ["tnt-launch"])
