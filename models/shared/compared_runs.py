"""Train twice, as plain Keras and on ranks, and draw both losses on each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from models.shared.curves import draw_curves
from models.shared.step_history import read_steps


def draw_both_runs(
    trainer: Path, flags: Sequence[str], picture: Path, *, title: str, num_ranks: int = 2
) -> None:
    """Run a trainer with `--distribute=none` and with the launcher, and draw the losses. Local.

    Args:
        trainer: Script with the flags that all trainers share.
        flags: Of both runs.
        picture: To write.
        title: Above the picture.
        num_ranks: Of the second run.
    """
    launcher = shutil.which("tarantella", path=str(Path(sys.executable).parent)) or "tarantella"
    runs = {
        "serial": [sys.executable, str(trainer), "--distribute=none"],
        f"{num_ranks} ranks": [launcher, "-n", str(num_ranks), "--", str(trainer)],
    }
    curves = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, command) in enumerate(runs.items()):
            steps = Path(folder) / f"{number}.jsonl"
            subprocess.run([*command, *flags, f"--step_history={steps}"], check=True)
            curves[name] = read_steps(steps)
    draw_curves(curves, picture, title=title)
