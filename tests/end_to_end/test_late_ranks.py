"""A rank that lives is waited for however late it joins, and the others say where it is."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from deadlines import deadline_s

from tnt_comm.whereabouts import INTERVAL_S

SCRIPT = f"""
import os, sys, time
import tnt_comm

def load():
    time.sleep({INTERVAL_S + 3})  # here it is

if tnt_comm.get_rank() == 0:
    load()
    if sys.argv[1] == "leave":
        sys.exit(0)
tnt_comm.barrier()
print("joined")
"""
LINE = 1 + ["# here it is" in line for line in SCRIPT.splitlines()].index(True)


def run(folder: pathlib.Path, manner: str) -> subprocess.CompletedProcess[str]:
    """A job whose timeout is much shorter than rank 0 takes to join."""
    (folder / "late.py").write_text(SCRIPT)
    times = ["TNT_TIMEOUT_S=1", f"TNT_STALL_S={INTERVAL_S + 1}"]
    launcher = [sys.executable, "-m", "tnt_launch", "--no-gpu", "-n", "2", "-x", *times]
    return subprocess.run(
        [*launcher, "--", "late.py", manner],
        cwd=folder,
        env={name: text for name, text in os.environ.items() if not name.startswith("TNT_")},
        capture_output=True,
        text=True,
        timeout=deadline_s(60),
        check=False,
    )


def test_a_late_rank_is_waited_for_and_its_line_is_told(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, "stay")
    assert (done.returncode, done.stdout) == (0, "joined\n")
    told = r"has waited for rank 0 .* s\. Rank 0 is at late\.py:(\d+), in load\."
    (line,) = re.findall(told, done.stderr)
    assert int(line) == LINE
    assert "no error as long as their processes run" in done.stderr


@pytest.mark.thorough  # the same on each end of a rank, in tests of tnt-comm
def test_a_late_rank_that_leaves_ends_the_wait(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, "leave")
    assert done.returncode == 1
    assert "rank 0 has ended (exit code 0) before it joined" in done.stderr
