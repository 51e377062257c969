"""Classes that cross rooms are counted, others are not."""

import textwrap

import count_concepts
import pytest


@pytest.fixture
def concepts(tmp_path):
    """A function that makes a package of files and returns its shared classes."""

    def find(files):
        for name, text in files.items():
            path = tmp_path / "pack" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return count_concepts.shared_classes(count_concepts.read_modules(tmp_path))

    return find


BASE = "class Thing: pass\nclass Other: pass\ndef work(): pass\n"


def test_a_class_that_another_room_imports_is_a_concept(concepts):
    found = concepts(
        {
            "low/base": BASE,
            "high/use": "from pack.low.base import Thing, work\n",
            "top": "def f():\n    from pack.low.base import Thing\n",
        }
    )
    assert found == {"pack.low.base.Thing": {"high", "top"}}


def test_a_class_of_an_imported_module_is_a_concept(concepts):
    use = "from pack.low import base as b\nb.Other()\nb.work()\n"
    found = concepts({"low/base": BASE, "high/use": use})
    assert found == {"pack.low.base.Other": {"high"}}


def test_what_a_room_uses_itself_or_shows_to_users_is_none(concepts):
    use = "from pack.low.base import Thing\n"
    found = concepts({"low/base": BASE, "low/use": use, "__init__": use})
    assert found == {}


def test_the_report_counts_files_and_lines(concepts, tmp_path):
    concepts({"low/base": BASE, "high/use": "from pack.low.base import Thing\n"})
    modules = count_concepts.read_modules(tmp_path)
    assert list(count_concepts.report("pack", modules)) == [
        "pack: 1 concepts, 2 files, 4 lines",
        "  pack.low.base.Thing: high",
    ]


def test_every_package_of_this_tree_can_be_counted(capsys):
    assert count_concepts.main([]) == 0
    assert "tnt-launch: " in capsys.readouterr().out
