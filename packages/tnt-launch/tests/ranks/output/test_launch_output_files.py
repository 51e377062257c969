"""`--output-dir` keeps all that ranks write, and changes nothing of what is seen."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios

from launched import LIMIT_S, wait_until

WRITE = """
import shutil
os.write(1, b"out %d\\n" % rank)
os.write(2, b"err %d\\n" % rank)
os.write(1, b"no newline")
"""


def read(folder, name):
    return (folder / "logs" / name).read_text()


def test_files_hold_everything_also_what_is_not_shown(launch, tmp_path):
    exit_code, out, err = launch(["-n", "2", "--output-dir", "logs"], WRITE).end()
    assert exit_code == 0
    assert out == "out 0\nno newline"
    assert sorted(err.splitlines()) == ["[1] err 1", "err 0"]
    for rank in range(2):
        assert read(tmp_path, f"rank-{rank}.stdout.log") == f"out {rank}\nno newline"
        assert read(tmp_path, f"rank-{rank}.stderr.log") == f"err {rank}\n"


def test_files_hold_the_traceback_of_a_rank_that_fails(launch, tmp_path):
    script = "if rank == 1: raise LookupError('the cause')\ntime.sleep(1000)"
    exit_code, _, _ = launch(["-n", "2", "--output-dir", "logs"], script).end()
    assert exit_code == 1
    assert read(tmp_path, "rank-1.stderr.log").endswith("LookupError: the cause\n")


def test_a_folder_that_is_none_is_an_error_before_any_rank_starts(launch, tmp_path):
    (tmp_path / "logs").write_text("")
    exit_code, _, err = launch(["--output-dir", "logs"], "").end()
    assert exit_code == 2
    folder = f"{tmp_path}/logs"
    assert err == f"tarantella: error: --output-dir: {folder}: File exists. [cannot-launch]\n"
    assert not (tmp_path / "pid-0").exists()


class Terminal:
    """A terminal of 33 lines and 77 columns; what is written to it is kept."""

    def __init__(self):
        self.main, self.end = pty.openpty()
        self.resize(33, 77)
        self.seen = b""

    def resize(self, lines, columns):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def has(self, text):
        os.set_blocking(self.main, False)
        with contextlib.suppress(BlockingIOError):
            self.seen += os.read(self.main, 4096)
        return text in self.seen

    def close(self):
        for fd in (self.main, self.end):
            os.close(fd)


BAR = """
if rank == 0:
    size = os.get_terminal_size(1)
    os.write(1, b"%d %d %d\\n" % (sys.stdout.isatty(), size.lines, size.columns))
    os.write(1, b"\\r 1/2")
    wait_for("seen")
    os.write(1, b"\\r 2/2 done")
"""


def test_on_a_terminal_rank_0_has_one_and_its_progress_is_seen_at_once(launch, tmp_path):
    terminal = Terminal()
    try:
        job = launch(["-n", "2", "--output-dir", "logs"], BAR, stdout=terminal.end)
        wait_until(lambda: terminal.has(b"1 33 77\r\n\r 1/2"))
        (tmp_path / "seen").touch()
        assert job.end()[0] == 0
        wait_until(lambda: terminal.has(b"\r 2/2 done"))
    finally:
        terminal.close()
    assert (tmp_path / "logs/rank-0.stdout.log").read_bytes() == b"1 33 77\n\r 1/2\r 2/2 done"


def test_a_large_output_to_a_terminal_is_complete(launch, tmp_path):
    terminal = Terminal()
    script = "if rank == 0:\n    for n in range(20000): os.write(1, b'%d ' % n)"
    try:
        job = launch(["-n", "1", "--output-dir", "logs"], script, stdout=terminal.end)
        wait_until(lambda: terminal.has(b"19999 ") and job.process.poll() is not None)
    finally:
        terminal.close()
    expected = b"".join(b"%d " % n for n in range(20000))
    assert terminal.seen == expected
    assert (tmp_path / "logs/rank-0.stdout.log").read_bytes() == expected


def test_a_new_size_of_the_terminal_reaches_rank_0(launch, tmp_path):
    terminal = Terminal()
    script = """
if rank == 0:
    announce(os.getpid(), "ready")
    while os.get_terminal_size(1).columns != 99:
        time.sleep(0.01)
"""
    try:
        job = launch(["-n", "1", "--output-dir", "logs"], script, stdout=terminal.end)
        job.pid("ready")
        terminal.resize(33, 99)
        job.process.send_signal(28)  # SIGWINCH, which the kernel sends to those in the foreground
        job.process.wait(timeout=LIMIT_S)
    finally:
        terminal.close()
    assert job.process.returncode == 0


def test_the_lines_of_other_ranks_have_a_colour_on_a_terminal(launch):
    terminal = Terminal()
    script = "if rank == 1: print('here', file=sys.stderr)"
    options = {"stderr": terminal.end, "stdout": subprocess.PIPE}
    environment = {"TERM": "xterm", "NO_COLOR": ""}
    try:
        launch(["-n", "2"], script, env=environment, **options).end()
        wait_until(lambda: terminal.has(b"\x1b[33m[1]\x1b[0m here\r\n"))
    finally:
        terminal.close()
