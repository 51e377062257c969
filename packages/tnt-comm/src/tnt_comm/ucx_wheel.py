"""Where UCX is, if it was installed from the package index."""

from importlib.util import find_spec
from pathlib import Path

from tnt_comm import _core


def announce() -> None:
    """Tell the C++ library the folder of the wheel's libraries. Loads nothing. Local."""
    spec = find_spec("libucx")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent / "lib"
    if folder.is_dir():
        _core.set_ucx_wheel_folder(str(folder))
