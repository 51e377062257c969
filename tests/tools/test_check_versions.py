"""The check accepts this tree and finds each kind of contradiction in a small made-up one."""

import check_versions
import pytest


@pytest.fixture
def tree(tmp_path):
    """A function that writes one package and returns the root of the made-up tree."""

    def add(name, version, dependencies=(), extra=(), changelog=None):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "{version}"\n'
            f"dependencies = {list(dependencies)}\n"
            f"optional-dependencies = {{ more = {list(extra)} }}\n"
        )
        default = f"# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-11-29\n"
        (folder / "CHANGELOG.md").write_text(default if changelog is None else changelog)
        return tmp_path

    return add


def test_versions_of_this_tree_satisfy_its_ranges(capsys):
    assert check_versions.main([]) == 0, capsys.readouterr().out


def test_a_range_that_excludes_the_version_in_the_tree_is_named(tree, capsys):
    tree("tnt-comm", "0.3.0")
    root = tree("tnt-keras", "0.3.0", ["tnt-comm>=0.1,<0.2"])
    assert check_versions.main([str(root)]) == 1
    expected = "tnt-keras needs tnt-comm<0.2,>=0.1, but the tree has tnt-comm 0.3.0\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("requirement", ["tnt-comm>=1.1", "tnt-comm[fast]>=1.1", "tnt-comm>=1,<3"])
def test_a_range_that_takes_the_next_major_version_is_named(tree, capsys, requirement):
    tree("tnt-comm", "1.2.0")
    root = tree("tnt-keras", "1.2.0", [requirement])
    assert check_versions.main([str(root)]) == 1
    assert "give the range the upper bound <2" in capsys.readouterr().out


def test_a_range_without_a_beginning_is_named(tree, capsys):
    tree("tnt-comm", "1.2.0")
    root = tree("tnt-keras", "1.2.0", ["tnt-comm<2"])
    assert check_versions.main([str(root)]) == 1
    assert capsys.readouterr().out == "tnt-keras needs tnt-comm<2: give the range a lower bound\n"


def test_a_range_of_an_extra_counts(tree, capsys):
    tree("tnt-comm", "1.2.0")
    root = tree("tarantella", "1.2.0", extra=["tnt-comm[ucx]>=1.3,<2"])
    assert check_versions.main([str(root)]) == 1
    expected = "tarantella needs tnt-comm[ucx]<2,>=1.3, but the tree has tnt-comm 1.2.0\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("version", "ranges", "status"),
    [
        ("0.1.0", ">=0.1,<0.2", 0),
        ("0.2", ">=0.1,<0.2.0", 1),
        ("0.10.0", ">=0.9,<1", 0),  # numbers are compared, not text
        ("1.0.1", "==1.0", 1),
        ("1.4.2", "~=1.4", 0),
        ("1.0.0rc1", ">=1.0.0rc1,<2", 0),
        ("1.0.0rc2", ">=1.0.0rc1,<2", 0),
        ("1.0.0rc1", ">=1.0.0rc2,<2", 1),
        ("1.0.0rc1", ">=1,<2", 1),  # a candidate comes before its release
    ],
)
def test_ranges_are_compared_number_by_number(tree, version, ranges, status):
    tree("tnt-comm", version)
    root = tree("tnt-keras", "0.1.0", [f"tnt-comm{ranges}"])
    assert check_versions.main([str(root)]) == status


def test_requirements_outside_the_tree_are_left_alone(tree):
    root = tree("tnt-data", "0.1.0", ["numpy>=1.26", "keras; python_version < '4'"])
    assert check_versions.main([str(root)]) == 0


@pytest.mark.parametrize(
    ("changelog", "missing"),
    [
        ("## [0.1.0] - 2026-11-29\n", "[Unreleased]"),
        ("## [Unreleased]\n", "[0.1.0] - YYYY-MM-DD"),
        ("## [Unreleased]\n## [0.1.0]\n", "[0.1.0] - YYYY-MM-DD"),
        ("## [Unreleased]\n## [0.1.0] - 2026-02-30\n", "[0.1.0] - YYYY-MM-DD"),
        ("## [Unreleased]\n## [0.1.0rc1] - 2026-11-29\n", "[0.1.0] - YYYY-MM-DD"),
    ],
)
def test_a_changelog_without_a_section_is_named(tree, capsys, changelog, missing):
    root = tree("tnt-data", "0.1.0", changelog=changelog)
    assert check_versions.main([str(root)]) == 1
    expected = f"packages/tnt-data/CHANGELOG.md: no section `## {missing}`\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize("version", ["1.0.0-rc1", "1.0.0.RC1", "v1.0.0rc1"])
def test_a_version_is_written_as_all_tools_write_it(tree, capsys, version):
    changelog = f"## [Unreleased]\n## [{version}] - 2026-11-29\n"
    root = tree("tnt-data", version, changelog=changelog)
    assert check_versions.main([str(root)]) == 1
    expected = f"tnt-data: write the version {version} as 1.0.0rc1\n"
    assert capsys.readouterr().out == expected
