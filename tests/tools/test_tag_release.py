"""Tags are made of what a release needs, in a repository that is thrown away."""

import subprocess

import check_public_interface
import pytest
import tag_release

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-11-29\n\n- All of it.\n"
PROJECT = '[project]\nname = "{name}"\nversion = "{version}"\n'


class Repository:
    """A repository with the packages tnt-data and tarantella, all committed."""

    def __init__(self, root):
        self.root = root
        self.git("init", "--quiet")
        self.git("config", "user.name", "A Developer")
        self.git("config", "user.email", "developer@example.org")
        (root / "environment.toml").write_text("rank = []\nsetting = []\n")
        for name in ("tnt-data", "tarantella"):
            source = self.path(name, "src", name.replace("-", "_"), "__init__.py")
            source.parent.mkdir(parents=True)
            source.write_text("def read():\n    pass\n")
            self.set_version(name, "1.0.0rc1")
        self.commit()

    def path(self, package, *parts):
        return self.root.joinpath("packages", package, *parts)

    def set_version(self, name, version):
        self.path(name, "pyproject.toml").write_text(PROJECT.format(name=name, version=version))
        self.path(name, "CHANGELOG.md").write_text(CHANGELOG.format(version=version))

    def commit(self):
        assert check_public_interface.main([str(self.root), "--write"]) == 0
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "More")

    def git(self, *words):
        command = ["git", "-C", str(self.root), *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


@pytest.fixture
def release(repository, capsys):
    """A function that tags the packages, and returns the status and what is said."""

    def tag(*options):
        capsys.readouterr()
        status = tag_release.main([str(repository.root), *options])
        return status, capsys.readouterr().out.splitlines()

    return tag


ALL = ["tnt-data-v1.0.0rc1", "tarantella-v1.0.0rc1"]  # first what the others need


def test_each_package_gets_an_annotated_tag_once(repository, release):
    assert release() == (0, [f"git push origin {tag}" for tag in ALL])
    assert repository.git("tag") == sorted(ALL)
    assert repository.git("cat-file", "-t", ALL[0]) == ["tag"]
    assert repository.git("tag", "-l", "--format=%(contents:subject)", ALL[0]) == [
        "tnt-data 1.0.0rc1"
    ]
    assert release() == (0, [])


def test_a_dry_run_makes_none(repository, release):
    assert release("--dry-run") == (0, [f"git push origin {tag}" for tag in ALL])
    assert repository.git("tag") == []


def test_a_package_that_keeps_its_version_gets_none(repository, release):
    release()
    repository.set_version("tnt-data", "1.0.0")
    repository.commit()
    assert release() == (0, ["git push origin tnt-data-v1.0.0"])


def test_a_changed_package_that_keeps_its_version_is_refused(repository, release):
    release()
    source = repository.path("tarantella", "src/tarantella/__init__.py")
    source.write_text(source.read_text() + "    # faster\n")
    repository.commit()
    said = "tarantella has changed since tarantella-v1.0.0rc1: raise its version"
    assert release() == (1, [f"{said}, and release it as well"])


def refused(repository, release):
    status, said = release()
    assert status == 1
    assert repository.git("tag") == []
    [sentence] = said
    return sentence


def test_a_changelog_without_the_version_is_in_the_way(repository, release):
    repository.path("tnt-data", "CHANGELOG.md").write_text("## [Unreleased]\n")
    repository.commit()
    assert "no section `## [1.0.0rc1] - YYYY-MM-DD`" in refused(repository, release)


def test_what_is_unreleased_is_in_the_way(repository, release):
    path = repository.path("tnt-data", "CHANGELOG.md")
    path.write_text(path.read_text().replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"))
    repository.commit()
    assert "move what stands below [Unreleased]" in refused(repository, release)


def test_a_record_of_another_version_is_in_the_way(repository, release):
    repository.set_version("tnt-data", "1.0.0rc2")
    repository.git("commit", "--quiet", "--all", "--message", "Another version")
    assert "is of tnt-data 1.0.0rc1, and the tree is 1.0.0rc2" in refused(repository, release)


def test_what_is_not_committed_is_in_the_way(repository, release):
    (repository.root / "new").touch()
    assert "not all is committed" in refused(repository, release)
