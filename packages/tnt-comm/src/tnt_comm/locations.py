"""Where other programs find the C library and its header."""

from importlib.resources import files

# Not beside this file in an editable installation: what is compiled has a folder of its own there.
_PACKAGE = files("tnt_comm")


def library_path() -> str:
    """Return the path of `libtnt_comm.so`, the library that this process uses. Local."""
    return str(_PACKAGE / "lib" / "libtnt_comm.so")


def include_path() -> str:
    """Return the include folder for compilers, which contains `tnt/comm/tnt_comm.h`. Local."""
    return str(_PACKAGE / "include")
