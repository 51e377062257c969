"""Find GoogleTest, or fetch Debian's build of it, for machines where nobody may install packages.

GoogleTest is on no Python package index, and CMake's FetchContent would need GitHub, which machines
that run the checks may not reach. Debian and Ubuntu have it as `libgtest-dev`; `apt-get`
can download a package without root when its lists and cache are kept in a folder of one's own.
`python tools/googletest.py FOLDER` prints the prefix below which `include/gtest` lies, and fills
FOLDER only where the system has none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "libgtest-dev"
ADVICE = f"Install GoogleTest, on Debian or Ubuntu: apt install {PACKAGE}"
TIMEOUT_S = 120


def has_googletest(prefix: Path) -> bool:
    """Whether GoogleTest is installed below `prefix`."""
    return (prefix / "include/gtest/gtest.h").is_file()


def installed_prefix() -> Path | None:
    """Prefix of the GoogleTest of this machine: `GTEST_ROOT`, /usr or /usr/local."""
    roots = [os.environ.get("GTEST_ROOT", ""), "/usr", "/usr/local"]
    return next((Path(root) for root in roots if root and has_googletest(Path(root))), None)


def download(scratch: Path) -> Path:
    """Download the Debian package into `scratch` and return its path."""
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    options = [f"Dir::State::Lists={scratch / 'lists'}", f"Dir::Cache={scratch / 'cache'}"]
    options += ["APT::Sandbox::User=root", "Debug::NoLocking=true"]
    apt_get = ["apt-get", "-qq", *(f"-o{option}" for option in options)]
    for command in (["update"], ["download", PACKAGE]):
        subprocess.run(
            [*apt_get, *command], cwd=scratch, check=True, stdout=sys.stderr, timeout=TIMEOUT_S
        )
    return next(scratch.glob("*.deb"))


def fetch(folder: Path) -> None:
    """Download the package and unpack it, so that `folder`/usr is a prefix."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name).resolve()
        root = scratch / "root"
        archive = download(scratch)
        subprocess.run(["dpkg-deb", "--extract", archive, root], check=True, timeout=TIMEOUT_S)
        shutil.rmtree(folder, ignore_errors=True)
        root.rename(folder)  # at once: a folder that exists is complete


def main(arguments: list[str] | None = None) -> int:
    """Print the prefix of GoogleTest; exit status 1 and advice where none can be had."""
    parser = argparse.ArgumentParser(description="Find or fetch GoogleTest.")
    parser.add_argument("folder", type=Path, help="where a fetched GoogleTest is kept")
    folder = parser.parse_args(arguments).folder
    prefix = installed_prefix()
    try:
        if prefix is None:
            prefix = folder.resolve() / "usr"
            if not has_googletest(prefix):
                fetch(folder)
    except (OSError, StopIteration, subprocess.SubprocessError) as error:
        print(f"googletest: {error}\n{ADVICE}", file=sys.stderr)
        return 1
    print(prefix)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
