"""The check accepts this tree and finds each kind of contradiction in a small made-up one."""

import check_versions
import pytest


@pytest.fixture
def tree(tmp_path):
    """A function that writes one package and returns the root of the made-up tree."""

    def add(name, version, dependencies=(), changelog=None):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        needs = ", ".join(f'"{line}"' for line in dependencies)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [{needs}]\n'
        )
        default = f"# Changelog\n\n## [Unreleased]\n\n## {version}\n"
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


@pytest.mark.parametrize("requirement", ["tnt-comm", "tnt-comm>=0.1", "tnt-comm[extra]>=0.1"])
def test_a_range_that_is_open_upwards_is_named(tree, capsys, requirement):
    tree("tnt-comm", "0.1.0")
    root = tree("tnt-keras", "0.1.0", [requirement])
    assert check_versions.main([str(root)]) == 1
    assert "give the range an upper bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "ranges", "status"),
    [
        ("0.1.0", ">=0.1,<0.2", 0),
        ("0.2", ">=0.1,<0.2.0", 1),
        ("0.10.0", ">=0.9,<1", 0),  # numbers are compared, not text
        ("1.0.1", "==1.0", 1),
        ("1.4.2", "~=1.4", 0),
    ],
)
def test_ranges_are_compared_number_by_number(tree, version, ranges, status):
    tree("tnt-comm", version)
    root = tree("tnt-keras", "0.1.0", [f"tnt-comm{ranges}"])
    assert check_versions.main([str(root)]) == status


def test_requirements_outside_the_tree_are_left_alone(tree):
    root = tree("tnt-data", "0.1.0", ["numpy>=1.26", "keras; python_version < '4'"])
    assert check_versions.main([str(root)]) == 0


@pytest.mark.parametrize("missing", ["Unreleased", "0.1.0"])
def test_a_changelog_without_a_section_is_named(tree, capsys, missing):
    text = "## [Unreleased]\n## 0.1.0\n".replace(f"[{missing}]", "-").replace(f"## {missing}", "-")
    root = tree("tnt-data", "0.1.0", changelog=text)
    assert check_versions.main([str(root)]) == 1
    expected = f"packages/tnt-data/CHANGELOG.md: no section for {missing}\n"
    assert capsys.readouterr().out == expected
