"""Links between pages of the repository lead somewhere, also outside of the built documentation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATTERNS = ["*.md", "docs/**/*.md", "packages/*/*.md", "models/**/*.md", "benchmarks/**/*.md"]
PAGES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_to_a_file(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
