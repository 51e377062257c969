"""A run on a change leaves out what the change cannot break, says why, and nothing else."""

import re
import subprocess
from pathlib import Path

import changed
import check_list
import pytest
from changed import EVERYTHING, part_of
from source_tree import PACKAGES, ROOT

WHEELS = {name: Path(f"{name}.whl") for name in PACKAGES}
ALL = check_list.Run(Path("reports"), WHEELS, "/usr", ())


def titles_and_folders(*parts):
    """Titles of the checks that run, and the folders of tests that pytest or a room is given."""
    checks, _ = check_list.checks_of(ALL._replace(changed=parts))
    pytests = [command for each in checks for command in each.commands if "pytest" in command]
    places = {word for command in pytests for word in command if re.match(r"[a-z]+/|models", word)}
    words = {word for each in checks for command in each.commands for word in command}
    in_rooms = {name for name in PACKAGES if f"--test={name}" in words}
    places |= {f"packages/{name}/tests/unit" for name in in_rooms}
    return {check.title for check in checks}, {"/".join(each.split("/")[:4]) for each in places}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("packages/tnt-comm/cpp/tests/ucx/declarations.cpp", "tnt-comm"),
        ("packages/tnt-comm/CHANGELOG.md", "docs"),
        ("packages/tnt-data/README.md", "tnt-data"),
        ("packages/tnt-keras/tests/ranks/classifiers.py", "tests of tnt-keras"),
        ("docs/howto/use_gpus.md", "docs"),
        ("README.md", "docs"),
        ("tests/docs/test_links.py", "tests/docs"),
        ("tests/cases.py", EVERYTHING),
        ("pyproject.toml", EVERYTHING),
        ("environment.toml", EVERYTHING),
        ("models/lenet5/train.py", "models"),
        ("examples/tutorials/gan.py", "examples"),
        ("a/new/folder.py", EVERYTHING),
    ],
)
def test_a_file_belongs_to_a_part_of_the_tree(path, part):
    assert part_of(path) == part


def test_a_changed_package_runs_its_tests_and_those_of_packages_that_need_it():
    titles, folders = titles_and_folders("tnt-data")
    of_packages = {folder.split("/")[1] for folder in folders if folder.startswith("packages/")}
    assert of_packages == {"tnt-data", "tnt-keras", "tarantella"}
    assert {"tests/docs", "tests/end_to_end", "tests/contract", "models"} <= folders
    assert "tests/schedulers" in folders
    assert {"style", "types"} <= titles
    assert "C++ tests" not in titles


def test_the_launcher_is_needed_by_none_but_the_package_of_all():
    _, folders = titles_and_folders("tnt-launch")
    of_packages = {folder.split("/")[1] for folder in folders if folder.startswith("packages/")}
    assert of_packages == {"tnt-launch", "tarantella"}


def test_changed_pages_run_what_looks_at_pages():
    titles, folders = titles_and_folders("docs")
    assert folders == {"tests/docs", "tests/contract", "tests/schedulers", "tests/tools"}
    assert "docs" in titles
    assert "types" not in titles


def test_changed_tests_of_a_package_run_no_others():
    _, folders = titles_and_folders("tests of tnt-launch")
    of_launcher = {f"packages/tnt-launch/tests/{kind}" for kind in ("ranks", "unit")}
    assert folders == {*of_launcher, "tests/tools"}


def test_what_is_nobodys_or_everybodys_runs_everything():
    assert titles_and_folders(EVERYTHING) == titles_and_folders(
        *PACKAGES, "tests/tools", *(f"tests of {name}" for name in PACKAGES)
    )


def test_every_test_is_run():
    _, folders = titles_and_folders(EVERYTHING)
    places = ("packages/*/tests", "tests", "models")
    tests = [path for place in places for path in ROOT.glob(f"{place}/**/test_*.py")]
    run = {ROOT / folder for folder in folders}
    assert [path for path in tests if not run.intersection(path.parents)] == []


def test_each_check_that_is_skipped_is_named_with_what_it_looks_at():
    checks, skipped = check_list.checks_of(ALL._replace(changed=["docs"]))
    unchanged = "nothing has changed in tests of tnt-data, tnt-data"
    assert f"skipped: packages/tnt-data/tests/unit, for {unchanged}" in skipped
    assert "skipped: C++ tests, for nothing has changed in tnt-comm" in skipped
    assert not any(check.title in line for check in checks for line in skipped)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A function that runs git in a tree with a main branch and one that has just left it."""
    monkeypatch.setattr(changed, "ROOT", tmp_path)

    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    git("init", "-b", "main")
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("kept", "moved", "edited"):
        (tmp_path / name).write_text(f"{name}\n" * 9)
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "topic")
    return git


def test_files_differ_from_where_the_branch_was_left_also_without_a_commit(tree, tmp_path):
    tree("mv", "moved", "är.py")
    tree("commit", "-m", "second")
    tree("checkout", "main")
    (tmp_path / "kept").write_text("by others")
    tree("commit", "-am", "of others")
    tree("checkout", "topic")
    (tmp_path / "edited").write_text("now")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/file").touch()
    (tmp_path / "build").mkdir()
    (tmp_path / "build/made").touch()
    main, files = changed.changed_files()
    assert main == "main"
    assert sorted(files) == ["edited", "moved", "new/file", "är.py"]


def test_a_tree_without_a_main_branch_is_refused(tree):
    tree("branch", "-D", "main")
    with pytest.raises(SystemExit, match="no branch to compare with: origin/HEAD, origin/main"):
        changed.changed_files()
