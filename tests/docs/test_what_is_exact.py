"""The page shows what two ranks exchange in the steps of its script."""

import re

from explained_steps import tables_of
from run_command import ROOT

PAGE = (ROOT / "docs/explanation/what_is_exact.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tables_are_those_of_the_script(pool_of):
    [script] = blocks("python")
    shown = [block for block in blocks("text") if "exchange" in block]
    assert len(shown) == 5
    assert pool_of(2).run(tables_of, script) == [shown, [""] * 5]  # only the master prints
