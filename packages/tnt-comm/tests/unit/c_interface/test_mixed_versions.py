"""An installation of which half is of another version says so when it is imported."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import tnt_comm
from tnt_comm import _core

LIBRARY = pathlib.Path(tnt_comm.library_path())


@pytest.fixture
def import_with(tmp_path):
    """A function that imports a copy of the package, with bytes of its library replaced."""

    def import_copy(before, after):
        package = tmp_path / "tnt_comm"
        shutil.copytree(pathlib.Path(tnt_comm.__file__).parent, package, dirs_exist_ok=True)
        shutil.copy(_core.__file__, package)
        (package / "lib").mkdir(exist_ok=True)
        text = LIBRARY.read_bytes()
        assert before in text
        assert len(before) == len(after)
        (package / "lib" / LIBRARY.name).write_bytes(text.replace(before, after))
        # Without `site`, whose hooks would find an editable installation first.
        program = "import sys; sys.path += sys.argv[1:]; import tnt_comm"
        done = subprocess.run(
            [sys.executable, "-S", "-c", program, str(tmp_path), *sys.path],
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stderr.splitlines()

    return import_copy


def version_of_library():
    function = ctypes.CDLL(str(LIBRARY)).tnt_comm_version
    function.restype = ctypes.c_char_p
    return function()


def test_a_library_of_another_version_is_named_with_its_path(import_with, tmp_path):
    version = version_of_library()
    other = version[:-1] + b"?"
    assert import_with(version + b"\0", other + b"\0")[-1] == (
        f"ImportError: The Python module of tnt-comm {version.decode()} has loaded the library of "
        f"tnt-comm {other.decode()} ({tmp_path}/tnt_comm/lib/libtnt_comm.so): reinstall "
        "tnt-comm."
    )


def test_a_library_that_lacks_a_function_is_told_as_one_of_another_version(import_with):
    said = import_with(b"\0tnt_timeline_begin\0", b"\0tnt_timeline_BEGIN\0")[-1]
    assert said.startswith("ImportError: The Python module of tnt-comm has loaded the library of a")
    assert "undefined symbol: tnt_timeline_begin" in said


def test_a_whole_copy_can_be_imported(import_with):
    assert import_with(b"tnt_comm", b"tnt_comm") == []
