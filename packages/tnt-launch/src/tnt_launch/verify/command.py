"""`tarantella verify`: run a script on several numbers of ranks, compare, tell."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from tnt_launch.errors import LaunchError
from tnt_launch.log import say, write_to_stderr
from tnt_launch.planning.command_line import make_spec, parse_arguments
from tnt_launch.planning.host_facts import inspect_host
from tnt_launch.planning.options import make_parser
from tnt_launch.planning.plan import make_job_id, make_plan
from tnt_launch.planning.scheduler_job import in_scheduler_job, read_file
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import check_program, find_temporary_folder
from tnt_launch.verify.causes import NO_HASHES
from tnt_launch.verify.hash_file import Record, read_hash_file
from tnt_launch.verify.judgement import judge_bits, judge_rounding
from tnt_launch.verify.process import EndedBySignalError, run_launcher
from tnt_launch.verify.report import (
    Done,
    details_of_bits,
    details_of_rounding,
    error_line,
    processor_of,
    table_of_bits,
    table_of_rounding,
)
from tnt_launch.verify.runs import Run, VerifyOptions, read_verify_options, runs_of

_SHOWN_LINES = 20  # of the output of a run that has failed


class _FailedRunError(Exception):
    """A run has failed, and all is said."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def run_verify(arguments: Sequence[str]) -> int:
    """Run the script and show what is found; return 0 if all runs are alike, 1 if not."""
    options = read_verify_options(arguments)
    runs = runs_of(options)
    for run in runs:
        _check(run)
    if options.is_dry_run:
        for run in runs:
            sys.stdout.write(f"{run.command(_file(options.folder or '', run, 'jsonl'))}\n")
        return 0
    try:
        with _folder_of(options) as folder:
            done = [_run(run, len(runs), folder, options.folder is not None) for run in runs]
    except EndedBySignalError as error:
        return 128 + error.number
    except _FailedRunError as error:
        return error.exit_code
    return _show(done, options)


def _check(run: Run) -> None:
    """Refuse what cannot be started before anything runs."""
    environment = run.environment(os.environ, os.devnull)
    spec = make_spec(parse_arguments(make_parser(), list(run.arguments)), environment)
    spec = in_scheduler_job(spec, environment, read_file)
    if not spec.hosts and spec.rendezvous is None:  # others are asked when the run starts
        check_program(spec)
        settings = read_settings(spec, environment)
        host = inspect_host(settings, environment, spec.allow_gpus)
        make_plan(spec, settings, [host], environment, make_job_id())


@contextlib.contextmanager
def _folder_of(options: VerifyOptions) -> Iterator[str]:
    """Return where the files of the runs are; without --keep they are gone at the end."""
    if options.folder is None:
        with tempfile.TemporaryDirectory(prefix="tnt-verify-", dir=find_temporary_folder()) as one:
            yield one
        return
    folder = os.path.abspath(options.folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            f"--keep {folder!r} cannot be made: {error.strerror}. Give a folder, which may be new, "
            f"where you may write."
        ) from None
    yield folder


def _file(folder: str, run: Run, suffix: str) -> str:
    return os.path.join(folder, f"run-{run.number}.{suffix}")


def _run(run: Run, num_runs: int, folder: str, is_kept: bool) -> Done:
    hashes, log = _file(folder, run, "jsonl"), _file(folder, run, "log")
    with contextlib.suppress(FileNotFoundError):
        os.remove(hashes)  # a restart would add to it
    words = " ".join(run.arguments[: run.arguments.index("--")])
    role = f" ({run.role})" if run.role else ""
    say(f"run {run.number} of {num_runs}: {words}{role}")
    begin_s = time.monotonic()
    exit_code = run_launcher(run.arguments, run.environment(os.environ, hashes), log)
    seconds = time.monotonic() - begin_s
    record = read_hash_file(hashes) if exit_code == 0 else None
    if record is None or not record.steps:
        _tell_failure(run, exit_code, log, is_kept)
        _tell_notes(read_hash_file(hashes))
        raise _FailedRunError(exit_code or 1)
    return Done(run, record, seconds)


def _tell_failure(run: Run, exit_code: int, log: str, is_kept: bool) -> None:
    with open(log, encoding="utf-8", errors="backslashreplace") as file:
        lines = file.read().splitlines()
    shown = lines[-_SHOWN_LINES:]
    if len(shown) < len(lines):
        shown = [f"... {len(lines) - len(shown)} lines more", *shown]
    write_to_stderr("".join(f"{line}\n" for line in shown).encode(errors="backslashreplace"))
    where = f"; its output is in {log}" if is_kept else ""
    if exit_code:
        say(f"run {run.number} failed with exit code {exit_code}: {error_line(lines)}{where}")
    else:
        say(f"run {run.number}: {NO_HASHES.text}{where}. {NO_HASHES.remedy}")


def _tell_notes(record: Record | None) -> None:
    """Say what may explain why a run has failed, such as code that looks at the rank."""
    for note in record.notes if record is not None else ():
        say(f"it may matter that {note.text}")


def _show(done: Sequence[Done], options: VerifyOptions) -> int:
    records = [one.record for one in done]
    lines: list[str] = []
    if options.is_within_serial:
        verdicts = judge_rounding(records)
        table = table_of_rounding(done, verdicts)
        details, well = details_of_rounding, "All runs are the serial one up to rounding."
    else:
        verdicts = judge_bits(records)
        table = table_of_bits(done, verdicts)
        details, well = (
            details_of_bits,
            "All runs are identical: every weight and every result has the same bits.",
        )
    for one, verdict in zip(done, verdicts, strict=True):
        lines += details(one, verdict)
    is_well = all(verdict.cause is None for verdict in verdicts)
    if not options.is_within_serial:
        lines.append(processor_of(records[0]))
    if options.folder is not None:
        lines.append(f"Hashes and output of all runs are in {os.path.abspath(options.folder)}.")
    text = table + "".join(f"{line}\n" for line in [*([well] if is_well else []), *lines])
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0 if is_well else 1
