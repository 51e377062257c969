"""The examples of the page about feeding data run, from the first to the last."""

import re

from run_command import ROOT, run_command

PAGE = ROOT / "docs/howto/feed_data.md"


def test_examples_run_one_after_the_other(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks))
    finished = run_command(f"python {script}")
    assert finished.status == 0, finished.messages
    assert re.search(r"map\(load\) +\| moved", finished.output)
    assert "22 samples of each batch on rank 0 of 3" in finished.output
    assert "0 [[0, 3], [5, 8]]\n1 [[1, 4], [6, 9]]\n2 [[2], [7]]" in finished.output
