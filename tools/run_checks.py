"""Run checks side by side, each with a deadline, and sum up what their tests said.

    python tools/run_checks.py CHECKS.json --reports FOLDER --workers 3

CHECKS.json is a list of objects: `title`, `commands` (argument lists, run one after the other until
one fails) and `deadline_s` for all of them. Workers take checks in the order of the list. The
output of a check is kept and printed in one piece when it ends; meanwhile a line each minute says
what is running and what it printed last. Tests are counted from the JUnit files in FOLDER. Whatever
ends this program but SIGKILL (Ctrl-C, SIGTERM of a time limit) ends all that it started.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

REPORT_EVERY_S = 60.0


class Check(NamedTuple):
    """Commands that are run one after the other, all of them before the deadline."""

    title: str
    commands: list[list[str]]
    deadline_s: float


class Ended(NamedTuple):
    """How a check ended; `failure` is empty if it passed."""

    title: str
    seconds: float
    failure: str
    cpu_s: float = 0.0  # of its processes, but for those that nobody waited for


class Counts(NamedTuple):
    """Tests of all reports."""

    failed: int
    passed: int
    skipped: int
    names: list[str]  # of those that failed


class Worker(threading.Thread):
    """Takes checks from a queue until it is empty."""

    def __init__(self, waiting: queue.SimpleQueue[Check], ended: queue.SimpleQueue[Ended]) -> None:
        super().__init__(daemon=True)
        self._waiting = waiting
        self._ended = ended
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()  # so that nothing starts after `stop`
        self._stopped = False
        self._output: IO[bytes] | None = None
        self._title = ""
        self._begin = self._cpu_s = 0.0

    def run(self) -> None:
        """Run checks; print the output of each when it has ended."""
        while not self._stopped:
            try:
                check = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._ended.put(self._run_check(check))

    def describe(self) -> str:
        """Return what runs now, for how long, and its latest line; empty if nothing runs."""
        output = self._output
        if output is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            text = Path(output.name).read_bytes()[-2000:].decode(errors="replace").strip()
            latest = text.splitlines()[-1][-100:] if text else "(no output yet)"
            return f"{self._title}, {time.monotonic() - self._begin:.0f} s: {latest}"
        return ""

    def stop(self) -> None:
        """End what runs, start nothing else, and print the output so far."""
        with self._starting:
            self._stopped = True
            if self._process is not None:
                end_group(self._process)
        if self.is_alive():
            self.join(timeout=10)

    def _run_check(self, check: Check) -> Ended:
        self._title, self._begin, self._cpu_s = check.title, time.monotonic(), 0.0
        with tempfile.NamedTemporaryFile() as output:
            self._output = output
            failure = self._run_commands(check, output)
            self._output = None
            seconds = time.monotonic() - self._begin
            text = Path(output.name).read_text(encoding="utf-8", errors="replace").rstrip()
        verdict = f"FAILED, {failure}" if failure else "passed"
        print(f"==== {check.title}: {verdict}, {seconds:.0f} s ====\n{text}", flush=True)
        return Ended(check.title, seconds, failure, self._cpu_s)

    def _run_commands(self, check: Check, output: IO[bytes]) -> str:
        for command in check.commands:
            left_s = check.deadline_s - (time.monotonic() - self._begin)
            failure = self._run_command(command, max(left_s, 0), output)
            if failure == "deadline":
                return f"ended after its deadline of {check.deadline_s:.0f} s"
            if failure:
                return failure
        return ""

    def _run_command(self, command: Sequence[str], left_s: float, output: IO[bytes]) -> str:
        output.write(f"$ {' '.join(command)[:400]}\n".encode())
        output.flush()
        with self._starting:
            if self._stopped:
                return "interrupted"
            try:
                self._process = start(command, output)
            except OSError as error:
                return f"cannot be started: {error}"
        is_late = not wait_for(self._process, left_s)
        with self._starting:
            end_group(self._process)  # also what a command that broke off has left behind
            _, code, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = status = os.waitstatus_to_exitcode(code)
            self._process = None
        self._cpu_s += usage.ru_utime + usage.ru_stime
        if is_late:
            return "deadline"
        if self._stopped:
            return "interrupted"
        if status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"exit status {status}" if status else ""


def start(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command that writes to a file and has a process group of its own."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process ends in time; it is left for `wait4`, which tells what it has used."""
    end = time.monotonic() + seconds
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End all processes of a command's group, whether or not the command itself has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Leave this block with SystemExit when a signal asks to end, as Ctrl-C does by itself."""
    # A signal that is ignored stays so: nohup does that with SIGHUP.

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_checks(checks: Sequence[Check], workers: int) -> list[Ended]:
    """Run all checks, `workers` of them at a time, and return how each ended."""
    waiting: queue.SimpleQueue[Check] = queue.SimpleQueue()
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    for check in checks:
        waiting.put(check)
    threads = [Worker(waiting, ended) for _ in range(workers)]
    for thread in threads:
        thread.start()
    results: list[Ended] = []
    try:
        while len(results) < len(checks):
            try:
                results.append(ended.get(timeout=REPORT_EVERY_S))
            except queue.Empty:
                running = filter(None, (thread.describe() for thread in threads))
                print("\n".join(f".... {line}" for line in running), flush=True)
    finally:
        for thread in threads:
            thread.stop()
    return results


def count_tests(reports: Path) -> Counts:
    """Sum up the tests of all JUnit files in a folder; one that breaks off counts as a failure."""
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    names = []
    for report in sorted(reports.glob("*.xml")):
        try:
            suites = [*ElementTree.parse(report).getroot().iter("testsuite")]
        except ElementTree.ParseError as error:
            names.append(f"{report.name}: no whole report, tests not counted ({error})")
            totals["tests"] += 1
            totals["errors"] += 1
            continue
        for suite in suites:
            for key in totals:
                totals[key] += int(suite.get(key) or 0)
            names += failed_tests(suite)
    failed = totals["failures"] + totals["errors"]
    return Counts(failed, totals["tests"] - failed - totals["skipped"], totals["skipped"], names)


def failed_tests(suite: ElementTree.Element) -> list[str]:
    """Return the name of each failed test and what its report says first."""
    # A report of ctest, which prints nothing itself (`--quiet`), holds the output.
    return [
        f"{case.get('classname')}::{case.get('name')}: {(reason.get('message') or '')[:200]}"
        + ("" if reason.text else f"\n{case.findtext('system-out') or ''}".rstrip())
        for case in suite.iter("testcase")
        for reason in [*case.iter("failure"), *case.iter("error")]
    ]


def print_summary(results: Sequence[Ended], counts: Counts, seconds: float) -> None:
    """Print the seconds of each check, of its processes on a core, and what failed."""
    print(f"{'':7}  {'on a core'}")
    for result in sorted(results, key=lambda result: -result.seconds):
        print(f"{result.seconds:7.0f} s {result.cpu_s:7.0f} s  {result.title}")
    for name in counts.names:
        print(f"failed: {name}")
    failures = [f"{result.title} ({result.failure})" for result in results if result.failure]
    if failures:
        print("failed: " + ", ".join(failures))
    # A check without tests, or one that broke off, fails without a failed test.
    failed = counts.failed or len(failures)
    summary = f"{failed} failed, {counts.passed} passed, {counts.skipped} skipped"
    print(f"==== {summary} in {seconds / 60:.1f} minutes ====", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the checks of a file; exit status 1 if one failed."""
    parser = argparse.ArgumentParser(description="Run checks side by side.")
    parser.add_argument("checks", type=Path, help="JSON file, see the top of this file")
    parser.add_argument("--reports", type=Path, required=True, help="folder of JUnit files")
    parser.add_argument("--workers", type=int, default=3, help="checks that run at a time")
    parser.add_argument("--before-s", type=float, default=0.0, help="seconds spent before")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    checks = [Check(**check) for check in json.loads(options.checks.read_text(encoding="utf-8"))]
    with ending_on_signals():
        results = run_checks(checks, options.workers)
    counts = count_tests(options.reports)
    print_summary(results, counts, time.monotonic() - begin + options.before_s)
    return 1 if counts.failed or any(result.failure for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
