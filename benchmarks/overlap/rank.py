"""One rank: `rank.py RESULT FUSION NETWORK NUMBERS...`; FUSION is a threshold in kB or `auto`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import tnt_comm


def threshold_kb_of(fusion: str) -> int:
    """What `auto` is on this link; measured once, since two measurements may differ. Collective."""
    if fusion != "auto":
        return int(fusion)
    return tnt_comm.fusion_threshold_for(tnt_comm.measure_link()) // 1024


def main() -> None:
    path, fusion, name, *numbers = sys.argv[1:]
    threshold_kb = threshold_kb_of(fusion)
    # Read when Tarantella is imported.
    os.environ["TNT_FUSION_THRESHOLD_KB"] = str(threshold_kb)
    training = importlib.import_module("benchmarks.overlap.training")
    result = training.measure(threshold_kb, name, *map(int, numbers))
    if tnt_comm.get_rank() == 0:
        result["threshold_kb"] = threshold_kb
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
