"""Where other programs find the C library and its header."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def library_path() -> str:
    """Return the path of `libtnt_comm.so`, the library that this process uses. Local."""
    return str(_PACKAGE / "lib" / "libtnt_comm.so")


def include_path() -> str:
    """Return the folder to compile with, which holds `tnt/comm/tnt_comm.h`. Local."""
    return str(_PACKAGE / "include")
