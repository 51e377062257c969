"""A tnt-comm with another C interface is refused when tnt_keras is imported, in one sentence."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

from tnt_keras.process.comm_interface import NEEDED

CPP = pathlib.Path(__file__).parents[3] / "cpp"


def _import_beside(folder: pathlib.Path) -> list[str]:
    """Import tnt_keras where a folder comes first, and return what is written to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", "import tnt_keras"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stderr.splitlines()


def _make_tnt_comm(folder: pathlib.Path, number: int, version: str) -> pathlib.Path:
    package = folder / "tnt_comm"
    header = package / "include/tnt/comm/tnt_comm.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"/* C */\n#define TNT_COMM_ABI_VERSION {number}\n")
    (package / "__init__.py").write_text("raise RuntimeError('it was imported')\n")
    if version:
        metadata = folder / f"tnt_comm-{version}.dist-info/METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: tnt-comm\nVersion: {version}\n")
    return package


def test_another_number_is_told_with_what_to_install(tmp_path: pathlib.Path) -> None:
    package = _make_tnt_comm(tmp_path, NEEDED + 1, "3.1.4")
    own = importlib.metadata.version("tnt-keras")
    begin = (
        f"ImportError: tnt-keras {own} needs version {NEEDED} of the C interface of tnt-comm, but "
        f"tnt-comm 3.1.4 ({package}) has version {NEEDED + 1}: install all packages of "
        "Tarantella from one release."
    )
    assert _import_beside(tmp_path)[-1].startswith(begin)


def test_one_that_is_not_installed_has_no_version(tmp_path: pathlib.Path) -> None:
    package = _make_tnt_comm(tmp_path, NEEDED - 1, "")
    said = _import_beside(tmp_path)[-1]
    assert f"but tnt-comm ({package}) has version {NEEDED - 1}: install" in said


def test_one_with_the_same_number_is_not_imported(tmp_path: pathlib.Path) -> None:
    _make_tnt_comm(tmp_path, NEEDED, "3.1.4")
    assert _import_beside(tmp_path) == []


def test_the_number_is_that_of_the_operations() -> None:
    header = (CPP / "tnt/keras/comm_c_api.h").read_text()
    assert re.findall(r"#define TNT_KERAS_COMM_ABI_VERSION (\d+)", header) == [str(NEEDED)]
