"""A clean room has the programs of this machine but for compilers."""

import shutil

import clean_room
import pytest


@pytest.mark.parametrize(
    "name",
    ["cc", "c++", "gcc-12", "x86_64-linux-gnu-g++", "clang++-18", "cmake", "ninja", "ld", "zig"],
)
def test_a_compiler_is_none_of_them(name):
    assert clean_room.COMPILER.fullmatch(name)


@pytest.mark.parametrize("name", ["bash", "cat", "ssh", "ldd", "python3.11", "accept", "basename"])
def test_other_programs_are_there(name):
    assert not clean_room.COMPILER.fullmatch(name)


def test_programs_can_be_run_by_their_links(tmp_path, monkeypatch):
    real = tmp_path / "bin"
    real.mkdir()
    for name in ("hello", "g++"):
        (real / name).write_text("#!/bin/sh\necho hello\n")
        (real / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{real}:{tmp_path / 'missing'}")
    folder = clean_room.link_programs(tmp_path / "programs")
    assert shutil.which("hello", path=str(folder))
    assert shutil.which("g++", path=str(folder)) is None


def test_tests_that_were_skipped_do_not_count(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="7" skipped="2"/></testsuites>')
    assert clean_room.number_of_tests(report) == 5


def test_a_release_of_other_sources_is_refused(tmp_path):
    (tmp_path / "sources.json").write_text('{"tnt-comm": "0"}')
    with pytest.raises(SystemExit, match="was built from other sources of tarantella, tnt-comm"):
        clean_room.refuse_other_sources(tmp_path)
