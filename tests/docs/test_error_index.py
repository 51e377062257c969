"""The index of errors has every error class that programs can catch, and no other."""

import inspect
import re
from pathlib import Path

import tarantella as tnt
import tnt_comm
import tnt_comm.testing
import tnt_data

PAGE = Path(__file__).parents[2] / "docs/reference/errors.md"
PUBLIC = (tnt, tnt_comm, tnt_comm.testing, tnt_data)


def entries():
    """The sections of the page by the names of classes."""
    parts = re.split(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_public_error_class_has_an_entry():
    names = {name for module in PUBLIC for name in dir(module) if not name.startswith("_")}
    objects = {getattr(module, name) for module in PUBLIC for name in names & {*dir(module)}}
    classes = {one for one in objects if inspect.isclass(one) and issubclass(one, Exception)}
    own = {one.__name__ for one in classes if one.__module__.startswith(("tnt_", "tarantella"))}
    assert {"PeerLostError", "BatchSizeError", "LaunchError"} <= own
    assert {*entries()} == own


def test_every_entry_has_an_example_and_a_remedy():
    for name, text in entries().items():
        assert "```text\n" in text, name
        assert "**Remedy**: " in text, name
