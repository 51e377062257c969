"""The check accepts this tree and finds each kind of missing docstring in a small made-up one."""

import check_docstrings
import pytest


@pytest.fixture
def package(tmp_path):
    """A function that writes a module of the package `tnt_new` and returns the root."""

    def add(name, source):
        folder = tmp_path / "packages/tnt-new/src/tnt_new"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source, encoding="utf-8")
        return tmp_path

    return add


def missing(root, capsys):
    status = check_docstrings.main([str(root)])
    lines = capsys.readouterr().out.splitlines()
    assert status == (1 if lines else 0)
    return [line.split(": ", 1)[1] for line in lines]


def test_every_public_name_of_this_tree_has_a_docstring(capsys):
    assert check_docstrings.main([]) == 0, capsys.readouterr().out


def test_a_public_function_without_docstring_is_named(package, capsys):
    root = package("__init__.py", '"""Package."""\n__all__ = ["run"]\ndef run(): ...\n')
    assert missing(root, capsys) == ["public name run has no docstring"]


def test_names_outside_all_are_private(package, capsys):
    root = package("__init__.py", '"""Package."""\n__all__ = []\ndef run(): ...\n')
    assert missing(root, capsys) == []


@pytest.mark.parametrize("line", ["from .group import Group", "from tnt_new.group import Group"])
def test_a_re_exported_class_is_followed_to_its_definition(package, capsys, line):
    package("group.py", '"""Module."""\nclass Group: ...\n')
    root = package("__init__.py", f'"""Package."""\n{line}\n__all__ = ["Group"]\n')
    assert missing(root, capsys) == ["public name Group has no docstring"]


def test_public_methods_and_properties_need_docstrings_and_private_ones_do_not(package, capsys):
    root = package(
        "__init__.py",
        '"""Package."""\n__all__ = ["Group"]\nclass Group:\n    """Ranks."""\n'
        "    def barrier(self): ...\n"
        "    @property\n    def size(self): ...\n"
        "    def _start(self): ...\n    def __len__(self): ...\n",
    )
    expected = [f"public name Group.{name} has no docstring" for name in ("barrier", "size")]
    assert missing(root, capsys) == expected


def test_overloads_setters_and_overrides_are_documented_elsewhere(package, capsys):
    members = "".join(
        f"    @{decorator}\n    def wait(self, value): ...\n"
        for decorator in ("overload", "typing.overload", "wait.setter", "override")
    )
    source = f'"""Package."""\n__all__ = ["Ticket"]\nclass Ticket:\n    """One."""\n{members}'
    assert missing(package("__init__.py", source), capsys) == []


def test_a_module_without_docstring_is_named(package, capsys):
    assert missing(package("plan.py", "x = 1\n"), capsys) == ["the module has no docstring"]


def test_a_cycle_of_imports_ends(package, capsys):
    package("a.py", '"""A."""\nfrom .b import name\n__all__ = ["name"]\n')
    assert missing(package("b.py", '"""B."""\nfrom .a import name\n'), capsys) == []
