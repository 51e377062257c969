"""Find `Python.h`, or fetch it from a wheel, for machines with a Python but without its headers.

Debian keeps the headers of Python in `python3-dev`, which needs root to install. Extension modules
only need headers of the same minor version (3.11 for 3.11): the binary interface is stable within
it. TensorFlow's wheel, which this project installs in any case, ships exactly these headers beside
its own, so they are taken from there. `python tools/python_headers.py FOLDER` prints the folder
that holds `Python.h`, and fills FOLDER only where the system has none.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "tensorflow>=2.18,<2.22"
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
ADVICE = f"Install the headers of Python {MINOR}, on Debian or Ubuntu: apt install python3-dev"


def headers_version(folder: Path) -> str | None:
    """Minor version, such as "3.11", of the headers in `folder`; None where there are none."""
    if not (folder / "Python.h").is_file() or not (folder / "patchlevel.h").is_file():
        return None
    text = (folder / "patchlevel.h").read_text(encoding="utf-8")
    found = re.search(r'#define PY_VERSION\s+"(\d+\.\d+)', text)
    return found.group(1) if found else None


def extract_headers(wheel: Path, folder: Path) -> None:
    """Copy the folder of a wheel that holds the `Python.h` of this Python into `folder`."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        roots = sorted(n.removesuffix("Python.h") for n in names if n.endswith("/Python.h"))
        if not roots:
            raise LookupError(f"{wheel.name} contains no Python.h. {ADVICE}")
        for name in names:
            if name.startswith(roots[0]) and not name.endswith("/"):
                target = folder / name.removeprefix(roots[0])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    if headers_version(folder) != MINOR:
        found = headers_version(folder)
        raise LookupError(f"{wheel.name} has headers of Python {found}, not of {MINOR}. {ADVICE}")


def fetch_headers(folder: Path) -> None:
    """Download TensorFlow's wheel (pip keeps it for the installation) and take its headers."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", f"--dest={scratch}", REQUIREMENT]
        subprocess.run(command, check=True, stdout=sys.stderr)
        extract_headers(next(Path(scratch).glob("*.whl")), Path(scratch, "include"))
        shutil.rmtree(folder, ignore_errors=True)
        Path(scratch, "include").rename(folder)  # at once: a folder that exists is complete


def main(arguments: list[str] | None = None) -> int:
    """Print the folder with the headers; exit status 1 and advice where none can be had."""
    parser = argparse.ArgumentParser(description="Find or fetch the headers of this Python.")
    parser.add_argument("folder", type=Path, help="where fetched headers are kept")
    folder = parser.parse_args(arguments).folder
    system = Path(sysconfig.get_path("include"))
    if headers_version(system) == MINOR:
        print(system)
        return 0
    try:
        if headers_version(folder) != MINOR:
            fetch_headers(folder)
    except (LookupError, OSError, subprocess.CalledProcessError) as error:
        print(f"python_headers: {error}\n{ADVICE}", file=sys.stderr)
        return 1
    print(folder.resolve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
