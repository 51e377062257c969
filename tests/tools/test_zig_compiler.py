"""CMake is told of a compiler that is for the oldest glibc, and of nothing of this machine."""

import os

import pytest
import zig_compiler
from zig_compiler import ARCHITECTURES, GLIBC, UNWINDER


@pytest.fixture
def settings_of(tmp_path, monkeypatch):
    """A function that returns the lines of the toolchain file for an architecture."""
    monkeypatch.setattr(
        zig_compiler, "link_unwinder_stub", lambda folder, architecture, cache: folder / UNWINDER
    )

    def write(architecture):
        file = zig_compiler.write_toolchain(tmp_path / architecture, architecture, tmp_path)
        return file.read_text().splitlines()

    return write


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_both_compilers_are_for_the_architecture_and_the_glibc(settings_of, architecture):
    target = f"-target {architecture}-linux-gnu.{GLIBC}"
    lines = [line for line in settings_of(architecture) if "_COMPILER " in line]
    assert [target in line for line in lines] == [True, True]


def test_another_architecture_is_named_and_this_one_is_not(settings_of):
    native = zig_compiler.native_architecture()
    [other] = {*ARCHITECTURES} - {native}
    assert f"set(CMAKE_SYSTEM_PROCESSOR {other})" in settings_of(other)
    assert not any("CMAKE_SYSTEM" in line for line in settings_of(native))


def test_the_unwinder_is_that_of_the_system(settings_of):
    linked = [line for line in settings_of("x86_64") if "LINKER_FLAGS" in line]
    assert len(linked) == 2
    assert all(UNWINDER in line for line in linked)


def test_archives_are_made_without_programs_of_the_system(settings_of, tmp_path):
    lines = settings_of("x86_64")
    for tool in ("ar", "ranlib"):
        program = tmp_path / "x86_64" / tool
        assert f"set(CMAKE_{tool.upper()} {program})" in lines
        assert os.access(program, os.X_OK)
