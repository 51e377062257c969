"""Find translation catalogues in packages of Debian and of PyPI, in folders and on this machine.

A package is downloaded into a scratch folder, unpacked and read. Nothing is installed, and no code
of it runs.
"""

from __future__ import annotations

import email.parser
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

DOWNLOAD_TIMEOUT_S = 600
UNSTATED = "not stated in a machine-readable way; see its copyright file"
_LICENCE_FIELD = re.compile(r"^License:[ \t]*(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")


class Package(NamedTuple):
    """What a package has for a language.

    Args:
        source: Where it comes from, such as `debian:git 1:2.39.5-0+deb12u3`.
        licence: Names of the licences that it states.
        catalogues: Contents of its `.mo` files, sorted by path.
    """

    source: str
    licence: str
    catalogues: list[bytes]


class NotAvailableError(Exception):
    """A package cannot be had; the reason is the message."""


def find_packages(source: str, language: str) -> Iterator[Package]:
    """Yield the packages of a source.

    Args:
        source: `debian:NAME` or `pypi:NAME`, where several names between `|` are tried one after
            the other; `installed`, for the packages of this Debian; or a folder.
        language: Such as `de`.

    Raises:
        NotAvailableError: If there is nothing.
    """
    kind, _, names = source.partition(":")
    if source == "installed":
        yield from installed_packages(Path("/"), language)
    elif kind == "debian":
        yield first_available(names.split("|"), language, download_from_debian)
    elif kind == "pypi":
        yield first_available(names.split("|"), language, download_from_pypi)
    else:
        yield read_folder(Path(source), language)


def first_available(
    names: list[str], language: str, download: Callable[[str, str, Path], Package]
) -> Package:
    reasons = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="catalogues-") as scratch:
            try:
                return require_catalogues(download(name, language, Path(scratch)))
            except NotAvailableError as error:
                reasons.append(f"{name}: {error}")
    raise NotAvailableError("; ".join(reasons))


def require_catalogues(package: Package) -> Package:
    if not package.catalogues:
        raise NotAvailableError("it has no catalogues of this language")
    return package


def read_folder(folder: Path, language: str) -> Package:
    """Read the catalogues below a folder, whose file LICENCE names their licence."""
    if not folder.is_dir():
        raise NotAvailableError("there is no such folder")
    licence = folder / "LICENCE"
    name = licence.read_text(encoding="utf-8").strip() if licence.is_file() else UNSTATED
    return require_catalogues(Package(str(folder), name, catalogues_below(folder, language)))


def catalogues_below(folder: Path, language: str) -> list[bytes]:
    """Return the contents of the catalogues of a language, or of its main country, by path."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.mo"))
    pattern = catalogue_pattern(language)
    return [(folder / path).read_bytes() for path in paths if pattern.search(path)]


def catalogue_pattern(language: str) -> re.Pattern[str]:
    """Match paths of catalogues of a language, such as `de` and `de_DE`."""
    name = re.escape(language)
    return re.compile(rf"(^|/){name}(_{name.upper()})?/LC_MESSAGES/[^/]+\.mo$")


# ---- Debian ----


def download_from_debian(name: str, language: str, scratch: Path) -> Package:
    """Download a package by apt-get, and unpack it by dpkg."""
    version = unpack_from_debian(name, scratch)
    licence = licence_of_debian(scratch, name)
    return Package(f"debian:{name} {version}", licence, catalogues_below(scratch, language))


def unpack_from_debian(name: str, folder: Path) -> str:
    """Unpack a package into a folder, and return its version."""
    run(["apt-get", "download", name], folder, "run `apt-get update` first")
    archive = next(folder.glob(f"{name}_*.deb"))
    run(["dpkg", "-x", archive.name, "."], folder)
    return run(["dpkg-deb", "--field", archive.name, "Version"], folder).strip()


def licence_of_debian(root: Path, name: str) -> str:
    """Return what a package's copyright file states; it may be that of another package."""
    documents = root / "usr/share/doc" / name
    if documents.is_symlink():
        owner = documents.readlink().name
        if not (root / "usr/share/doc" / owner).is_dir():
            try:
                unpack_from_debian(owner, root)
            except NotAvailableError:
                return UNSTATED
    copyright_file = documents / "copyright"
    if not copyright_file.is_file():
        return UNSTATED
    return licences_in(copyright_file.read_text(encoding="utf-8", errors="replace"))


def licences_in(text: str) -> str:
    """Return the licences that a copyright file names, each once.

    >>> licences_in("Files: *\\nLicense: GPL-2+\\n ...\\nFiles: x\\nLicense: MIT\\n")
    'GPL-2+, MIT'
    >>> licences_in("... is in /usr/share/common-licenses/GPL-3.")
    'GPL-3'
    """
    names = _LICENCE_FIELD.findall(text) or _COMMON_LICENCE.findall(text)
    return ", ".join(dict.fromkeys(names)) or UNSTATED


def installed_packages(root: Path, language: str) -> Iterator[Package]:
    """Yield the packages of this Debian that have catalogues in its usual folder."""
    folder = root / "usr/share/locale" / language / "LC_MESSAGES"
    paths = sorted(folder.glob("*.mo"))
    if not paths:
        raise NotAvailableError(f"there are no catalogues in {folder}")
    owners = run(["dpkg", "-S", *map(str, paths)], root, "it is no Debian")
    paths_of: dict[str, list[Path]] = {}
    for line in owners.splitlines():
        owner, _, path = line.partition(": ")
        paths_of.setdefault(owner.partition(":")[0], []).append(Path(path))
    for owner, owned in sorted(paths_of.items()):
        licence = licence_of_installed(root, owner)
        yield Package(f"installed:{owner}", licence, [path.read_bytes() for path in sorted(owned)])


def licence_of_installed(root: Path, name: str) -> str:
    path = root / "usr/share/doc" / name / "copyright"
    if not path.is_file():
        return UNSTATED
    return licences_in(path.read_text(encoding="utf-8", errors="replace"))


# ---- PyPI ----


def download_from_pypi(name: str, language: str, scratch: Path) -> Package:
    """Download the wheel of a package by pip, and read it without installing it."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "download", *options, name], scratch)
    return read_wheel(next(scratch.glob("*.whl")), language)


def read_wheel(path: Path, language: str) -> Package:
    """Read the catalogues of a wheel, and what its metadata say."""
    with zipfile.ZipFile(path) as wheel:
        members = sorted(wheel.namelist())
        metadata = next(member for member in members if member.endswith(".dist-info/METADATA"))
        fields = email.parser.HeaderParser().parsestr(wheel.read(metadata).decode("utf-8"))
        pattern = catalogue_pattern(language)
        catalogues = [wheel.read(member) for member in members if pattern.search(member)]
    licences = [fields["License-Expression"]] if fields["License-Expression"] else []
    for classifier in fields.get_all("Classifier", []):
        if classifier.startswith("License :: "):
            licences.append(classifier.rpartition(" :: ")[2])
    if not licences and fields["License"]:
        licences.append(fields["License"].splitlines()[0])
    source = f"pypi:{fields['Name']} {fields['Version']}"
    return Package(source, ", ".join(licences) or UNSTATED, catalogues)


def run(command: list[str], folder: Path, advice: str = "") -> str:
    """Run a command in a folder and return what it prints.

    Raises:
        NotAvailableError: If it is not there, fails, or takes too long.
    """
    try:
        finished = subprocess.run(
            command,
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise NotAvailableError(f"there is no command {command[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise NotAvailableError(f"{command[0]} took longer than {error.timeout:.0f} s") from error
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or [f"{command[0]} failed"]
        raise NotAvailableError(f"{lines[-1]}{f' ({advice})' if advice else ''}")
    return finished.stdout
