"""Every public name has a page in the reference: a line in a table of docs/reference/api."""

import importlib
import re

import pytest
from run_command import ROOT

ENTRY = re.compile(r"^   (t[\w.]+)$", re.MULTILINE)
PAGES = sorted(ROOT.glob("docs/reference/api/*.md"))
ENTRIES = [name for page in PAGES for name in ENTRY.findall(page.read_text(encoding="utf-8"))]
MODULES = [
    "tarantella",
    "tarantella.callbacks",
    "tarantella.data",
    "tarantella.models",
    "tnt_comm",
    "tnt_comm.testing",
    "tnt_data",
]


def load(name):
    """The object of a public name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def names_of(module):
    """Public names of a module but those of modules."""
    names = importlib.import_module(module).__all__
    objects = {f"{module}.{name}": load(f"{module}.{name}") for name in names}
    return {
        name: value
        for name, value in objects.items()
        if not isinstance(value, type(importlib)) and not name.endswith("__version__")
    }


def test_no_name_has_two_pages():
    assert [name for name in ENTRIES if ENTRIES.count(name) > 1] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_page(module):
    shown = [load(re.sub(r"^tnt\.", "tarantella.", name)) for name in ENTRIES]
    assert [name for name, value in names_of(module).items() if value not in shown] == []
