"""The page on the summation order has a table and a program; they say the same."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/explanation/summation_order.md").read_text("utf-8")
PROGRAM = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)
ROWS = re.findall(r"^\| (\d+) \| \$(.+)\$ \|$", PAGE, re.MULTILINE)


class Term(str):
    """A sum written out: adding two terms writes the sum with its brackets."""

    def __add__(self, other):
        return Term(f"({self} + {other})")


@pytest.mark.parametrize(("size", "formula"), ROWS, ids=[f"{size} ranks" for size, _ in ROWS])
def test_the_program_of_the_page_gives_the_formulas_of_its_table(size, formula):
    names = {}
    exec(PROGRAM, names)
    written = names["tree_sum"]([Term(f"x_{rank}") for rank in range(int(size))])
    assert written == f"({formula})"


def test_the_table_has_rows():
    assert [int(size) for size, _ in ROWS] == [2, 3, 4, 6, 8]
