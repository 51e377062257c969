"""The example of the README runs and shows what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_example_shares_every_batch_between_two_ranks() -> None:
    example = "".join(re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, str(README), "exec"), {})
    rows = re.findall(r"rank (\d): x=\[(.*)\] y=\[(.*)\]", output.getvalue())
    assert [(rank, len(x.split())) for rank, x, _ in rows] == [
        ("0", 3),
        ("0", 1),
        ("1", 2),
        ("1", 1),
    ]
    assert sorted(int(x) for _, xs, _ in rows for x in xs.split()) == list(range(7))
    assert all([10 * int(a) for a in x.split()] == [int(b) for b in y.split()] for _, x, y in rows)
    assert re.search(r"map\(<lambda>\) +\| moved", output.getvalue())
