"""A run that is killed, started again, asked to end, and continued, as on a cluster at night."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from deadlines import deadline_s

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "train_with_backups.py"
LAUNCHER = [sys.executable, "-m", "tnt_launch", "--no-gpu", "-n", "2"]


def run(folder: pathlib.Path, manner: str, *options: str) -> tuple[int, str]:
    """Exit code and messages of a training with its backup in a folder."""
    done = subprocess.run(
        [*LAUNCHER, *options, "--", SCRIPT, folder, manner],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=deadline_s(200),
        check=False,
    )
    return done.returncode, done.stderr


def test_a_run_that_is_killed_and_preempted_ends_with_the_bits_of_an_undisturbed_one(
    tmp_path: pathlib.Path,
) -> None:
    expected, folder = tmp_path / "undisturbed", tmp_path / "disturbed"
    assert run(expected, "undisturbed") == (0, "")

    exit_code, messages = run(folder, "disturbed", "--max-restarts", "1", "--log-level", "INFO")
    assert exit_code == 75
    assert "in epoch 1, step 4: killed by SIGKILL" in messages
    assert "restart 1 of 1" in messages
    assert (
        messages.count("The training continues from the backup in") == 1
    )  # after `tnt.save_now()`
    assert "SIGTERM: leaving `fit` in epoch 2, after step" in messages
    assert messages.splitlines()[-1].startswith("tarantella: asked to end by SIGTERM, all 2 ranks")

    assert run(folder, "undisturbed") == (0, "")
    ends = [pathlib.Path(f"{one}.end").read_text() for one in (expected, folder)]
    assert ends[0] == ends[1]
