"""No GPI-2, or the wrong one: said at once, with the remedy. These run everywhere."""

import subprocess
from pathlib import Path

import pytest

import tnt_comm
from tnt_comm.testing import Host, RankReport, observe_ranks

NOWHERE = "/nowhere/libGPI2.so"

# Just enough of a library to be asked for its version.
STRANGE_LIBRARY = """
int gaspi_version(float *version) { *version = VERSION; return 0; }
"""


def join() -> None:
    tnt_comm.init()


def strange_library(folder: Path, version: str) -> str:
    """Compile a library that says to be this version of GPI-2."""
    library = folder / "libstrange.so"
    source = folder / "strange.c"
    source.write_text(STRANGE_LIBRARY)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", f"-DVERSION={version}", "-o", str(library), str(source)],
        check=True,
        timeout=110,
    )
    return str(library)


def reports_of(library: str) -> list[RankReport]:
    env = {"TNT_GPI2_LIBRARY": library, "TNT_TIMEOUT_S": "60", "TNT_TRANSPORT": "gpi2"}
    return observe_ranks(join, 2, env=env, timeout_s=100)


@pytest.mark.parametrize("size", [1, 2])
def test_every_rank_says_how_to_get_gpi2(size: int) -> None:
    env = {"TNT_TRANSPORT": "gpi2", "TNT_GPI2_LIBRARY": NOWHERE}
    for report in observe_ranks(join, size, env=env, timeout_s=100):
        assert (report.outcome, report.exit_code) == ("raised", 1)
        assert "CommError" in report.error
        assert f"TNT_GPI2_LIBRARY='{NOWHERE}' cannot be loaded" in report.error
        assert "Build and install it as its README says" in report.error
        assert "set TNT_GPI2_LIBRARY to the path of its libGPI2.so" in report.error


@pytest.mark.parametrize(
    ("named", "remedy"),
    [
        ("", 'The easiest remedy is `pip install "tnt-comm[ucx]"`'),
        (NOWHERE, "Build and install it as its README says"),  # which is not silently replaced
    ],
)
def test_several_hosts_need_it_or_ucx(named: str, remedy: str) -> None:
    env = {"TNT_GPI2_LIBRARY": named, "TNT_UCX_LIBRARY": "/nowhere/libucp.so.0"}
    for report in observe_ranks(join, 2, env=env, hosts=(Host(1), Host(1)), timeout_s=100):
        assert remedy in report.error


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    for report in reports_of(strange_library(tmp_path, "1.30f")):
        assert "CommError" in report.error
        assert "says that it is version 1.3. Supported are the versions 1.5.1 and 1.6.0" in (
            report.error
        )


def test_an_incomplete_library_is_refused(tmp_path: Path) -> None:
    for report in reports_of(strange_library(tmp_path, "1.60f")):
        assert "has no function gaspi_proc_init, so it is not a complete GPI-2" in report.error


def test_a_library_of_something_else_is_refused() -> None:
    for report in reports_of(tnt_comm.library_path()):
        assert "has no function gaspi_version" in report.error


def test_shared_memory_alone_cannot_connect_hosts() -> None:
    env = {"TNT_TRANSPORT": "shm"}
    for report in observe_ranks(join, 2, env=env, hosts=(Host(1), Host(1))):
        assert "ValueError" in report.error
        assert "TNT_TRANSPORT='shm' connects the ranks of one host" in report.error


def test_a_malformed_port_is_named() -> None:
    env = {"TNT_TRANSPORT": "gpi2", "TNT_GPI2_PORT": "80"}
    for report in observe_ranks(join, 1, env=env):
        assert "Environment variable TNT_GPI2_PORT must be an integer in [1024, " in report.error
