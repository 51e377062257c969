"""Generated files follow the table, and the check names one that does not."""

import shutil

import pytest
import write_environment


@pytest.fixture
def tree(tmp_path):
    """A copy of the table and of all that is written from it."""
    names = [*write_environment.written(write_environment.ROOT), write_environment.TABLE]
    names.append(f"{write_environment.LAUNCHER}/grammar.py")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(write_environment.ROOT / name, tmp_path / name)
    return tmp_path


def add(tree, text):
    with open(tree / write_environment.TABLE, "a") as table:
        table.write(text)


NEW = """
[[setting]]
name = "TNT_NEW_THING"
type = "word"
words = ["one", "two"]
default = "two"
doc = "what a rank does"
read_by = ["tnt-comm", "tnt-keras"]
option = "--new-thing"
group = "communication"
help = "what ranks do"
"""


def test_the_files_of_this_tree_are_those_of_the_table():
    assert write_environment.main(["--check"]) == 0


def test_a_new_variable_reaches_all_packages_and_the_page(tree, capsys):
    add(tree, NEW)
    assert write_environment.main(["--check", str(tree)]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert write_environment.main([str(tree)]) == 0
    assert write_environment.main(["--check", str(tree)]) == 0
    line = 'NEW_THING = Variable("TNT_NEW_THING", Word(("one", "two")), "two")\n'
    option = '"TNT_NEW_THING": Option("--new-thing", "communication", "what ranks do"),\n'
    launcher = (tree / write_environment.LAUNCHER / "variables.py").read_text()
    assert line in launcher
    assert option in launcher
    assert line in (tree / write_environment.KERAS / "variables.py").read_text()
    row = "| `TNT_NEW_THING` | `one`, `two` | `two` | what a rank does | tnt-comm, tnt-keras |"
    assert f"{row} `--new-thing` |\n" in (tree / write_environment.PAGE).read_text()
    expected = 'kNewThing{.name = "TNT_NEW_THING", .fallback = "two", .words = {"one", "two"}};\n'
    assert expected in (tree / write_environment.COMM).read_text()


def test_a_file_that_was_changed_by_hand_is_named(tree, capsys):
    path = f"{write_environment.KERAS}/variables.py"
    (tree / path).write_text("PREFIX = 'OTHER_'\n")
    assert write_environment.main(["--check", str(tree)]) == 1
    assert capsys.readouterr().out == (
        f"{path} is not that of environment.toml: run python tools/write_environment.py\n"
    )


def test_a_page_without_a_mark_is_refused(tree):
    (tree / write_environment.PAGE).write_text("# Environment variables\n")
    with pytest.raises(SystemExit, match=r"needs one line <!-- \[\[rank\]\]"):
        write_environment.main([str(tree)])


@pytest.mark.parametrize("word", ["option", "group", "help"])
def test_an_option_without_all_that_it_needs_is_refused(tree, word):
    option = {"option": "--nice", "group": "other", "help": "how much ranks give way"}
    lines = [f'{name} = "{text}"' for name, text in option.items() if name != word]
    setting = ["[[setting]]", 'name = "TNT_NICE"', 'type = "integer"', 'doc = ""', "read_by = []"]
    add(tree, "\n".join(["", *setting, *lines, ""]))
    with pytest.raises(SystemExit, match="TNT_NICE: an option needs `option`, `group`, `help`"):
        write_environment.main([str(tree)])
