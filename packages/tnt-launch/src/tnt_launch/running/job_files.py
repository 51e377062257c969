"""Files of a job on its host: the record of it, names for GPI-2, shared memory left behind."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tnt_launch.log import LOGGER
from tnt_launch.planning.plan import HostPlan
from tnt_launch.running.processes import PROC, start_of, state_of

_SUFFIX = ".json"
_ATTEMPTS = 3


@dataclass(frozen=True)
class JobRecord:
    """A job, as its launcher has written it down when it began."""

    job_id: str  # which its processes have in their variables
    script: str
    working_directory: str
    files: tuple[str, ...] = ()  # what else the launcher removes when the job ends
    node_rank: int = 0  # hosts may share the folder of records
    pid: int = field(default_factory=os.getpid)  # of the launcher
    # Of the launcher, in ticks since the boot of the host.
    start: int = field(default_factory=lambda: start_of(os.getpid()))
    boot: str = field(default_factory=lambda: _boot())
    # In which process ids are counted: a container may have one of its own.
    namespace: str = field(default_factory=lambda: _namespace())
    host: str = field(default_factory=lambda: os.uname().nodename)

    @property
    def name(self) -> str:
        """What its file is called, without the suffix."""
        return f"{self.job_id}-{self.node_rank}"

    @property
    def is_of_this_host(self) -> bool:
        """Whether its processes would be seen here."""
        return self.host == os.uname().nodename and self.namespace == _namespace()

    @property
    def is_running(self) -> bool:
        """Whether its launcher lives, and not another process that has its number now."""
        return (
            self.boot == _boot()
            and start_of(self.pid) == self.start
            and state_of(self.pid) not in ("", "Z", "X")
        )


class RecordFolder:
    """A folder of records that is this user's alone. Links are not followed."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def write(self, record: JobRecord) -> None:
        """Write a record, which appears with its whole content."""
        part = f".{record.name}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(part, flags, 0o600, dir_fd=self._fd), "w", encoding="utf-8") as file:
            json.dump(asdict(record), file)
        os.rename(part, record.name + _SUFFIX, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, record: JobRecord) -> None:
        """Remove a record; one that is gone is not an error."""
        with contextlib.suppress(OSError):
            os.unlink(record.name + _SUFFIX, dir_fd=self._fd)

    def records(self) -> list[JobRecord]:
        """Return all that can be read, in the order of their names."""
        names = sorted(name for name in os.listdir(self._fd) if name.endswith(_SUFFIX))
        records = (self._read(name.removesuffix(_SUFFIX)) for name in names)
        return [record for record in records if record is not None]

    def close(self) -> None:
        """Close the folder."""
        os.close(self._fd)

    def _read(self, name: str) -> JobRecord | None:
        try:
            fd = os.open(name + _SUFFIX, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._fd)
            with open(fd, encoding="utf-8") as file:
                fields = json.load(file)
            record = JobRecord(**fields | {"files": tuple(fields["files"])})
        except (OSError, ValueError, TypeError, KeyError):  # it is gone, or that of another version
            return None
        return record if record.name == name and record.job_id.isalnum() else None


def candidates() -> list[str]:
    """Return where records may be, the place for new ones first."""
    # A later process of the same user may have other variables.
    uid = os.geteuid()
    runtime = [os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"]
    temporary = [tempfile.gettempdir(), "/tmp"]
    paths = [os.path.join(path, "tarantella") for path in runtime if _is_private(path)]
    paths += [os.path.join(path, f"tnt-{uid}") for path in temporary]
    return list(dict.fromkeys(paths))


def open_folder(path: str, *, creates: bool = False) -> RecordFolder | None:
    """Open a folder of records, `None` if there is none that is this user's alone."""
    if creates:
        with contextlib.suppress(OSError):
            os.mkdir(path, 0o700)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if _is_ours(os.fstat(fd)):
        return RecordFolder(fd, path)
    os.close(fd)
    return None


@contextlib.contextmanager
def recorded(record: JobRecord) -> Iterator[str]:
    """Keep a record during the block and give its path, empty if there is no place for it."""
    folder = _written(record)
    try:
        yield "" if folder is None else os.path.join(folder.path, record.name + _SUFFIX)
    finally:
        if folder is not None:
            folder.remove(record)
            folder.close()
            with contextlib.suppress(OSError):  # not empty
                os.rmdir(folder.path)


def _written(record: JobRecord) -> RecordFolder | None:
    """Write a record into the first folder that is this user's alone."""
    reason: object = f"none of {', '.join(candidates())} is a folder that only this user can use"
    for path in candidates() * _ATTEMPTS:
        folder = open_folder(path, creates=True)
        if folder is None:
            continue
        try:
            folder.write(record)
            return folder
        except OSError as error:  # another job may have removed the folder as empty
            folder.close()
            reason = error
    LOGGER.info("the job has no record, so `--cleanup` cannot find it: %s", reason)
    return None


def _is_private(path: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.isabs(path) and _is_ours(os.stat(path))
    return False


def _is_ours(status: os.stat_result) -> bool:
    is_alone = stat.S_IMODE(status.st_mode) & 0o077 == 0
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and is_alone


def _boot() -> str:
    with contextlib.suppress(OSError):  # `/proc` may show less in a container
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def _namespace() -> str:
    with contextlib.suppress(OSError):
        return os.readlink(PROC / "self/ns/pid")
    return ""


SHARED_MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def files_written(plan: HostPlan, job_id: str, script: str) -> Iterator[list[str]]:
    """Keep the files of a job on this host during the block, and give their paths."""
    files = [] if plan.machine_file is None else [plan.machine_file.path]
    record = JobRecord(job_id, script, plan.working_directory, tuple(files), plan.node_rank)
    with machine_file_written(plan), recorded(record) as path:
        yield [*files, *filter(None, [path])]


@contextlib.contextmanager
def machine_file_written(plan: HostPlan) -> Iterator[None]:
    """Keep the machine file of a plan, readable by this user alone, during the block."""
    file = plan.machine_file
    if file is None:
        yield
        return
    descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as lines:
            lines.writelines(f"{host}\n" for host in file.hosts)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.path)


def note_end_of_rank(job_id: str, rank: int, how: str) -> None:
    """Write the file in which other ranks of this host read how a rank has ended."""
    # A rank that waits for others to join the job looks for it, so that it need not wait for a rank
    # that will never come. The file appears with its whole content.
    path = SHARED_MEMORY / f"tnt-{job_id}-ended-{rank}"
    # Hosts may share the folder, where an agent that has ended removes what is named after the job.
    descriptor, part = tempfile.mkstemp(prefix=f".tnt-{job_id}-", dir=SHARED_MEMORY)
    # A text may hold bytes of a file's name that are not text.
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(how)
    os.rename(part, path)


def remove_end_notes(job_id: str) -> None:
    """Remove what `note_end_of_rank` wrote."""
    _remove(f"tnt-{job_id}-ended-*")


def remove_files_of_job(job_id: str) -> list[Path]:
    """Remove what killed ranks left in shared memory, normally nothing, and return it."""
    return _remove(f"tnt-{job_id}-*")


def files_of_job(job_id: str) -> list[Path]:
    """Return what `remove_files_of_job` would remove."""
    return sorted(SHARED_MEMORY.glob(f"tnt-{job_id}-*"))


def _remove(pattern: str) -> list[Path]:
    removed = []
    for path in SHARED_MEMORY.glob(pattern):
        try:
            path.unlink()
        except OSError:  # somebody else's, or gone already
            continue
        removed.append(path)
    return removed
