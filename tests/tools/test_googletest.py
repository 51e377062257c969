"""GoogleTest comes from the system where it is installed, else from a Debian package."""

import subprocess

import googletest
import pytest


@pytest.fixture
def without_system(monkeypatch):
    """Nothing is installed on this machine."""
    monkeypatch.setattr(googletest, "installed_prefix", lambda: None)


@pytest.fixture
def debian_package(tmp_path, monkeypatch):
    """A package as small as possible in place of the one that would be downloaded."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = (
        "Package: libgtest-dev\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    )
    (tree / "DEBIAN/control").write_text(control)
    (tree / "usr/include/gtest").mkdir(parents=True)
    (tree / "usr/include/gtest/gtest.h").touch()
    path = tmp_path / "libgtest-dev.deb"
    subprocess.run(["dpkg-deb", "--build", tree, path], check=True, capture_output=True)
    monkeypatch.setattr(googletest, "download", lambda scratch: path)


def test_a_fetched_package_is_a_prefix_that_has_googletest(
    tmp_path, without_system, debian_package, capsys
):
    assert googletest.main([str(tmp_path / "kept")]) == 0
    prefix = capsys.readouterr().out.strip()
    assert prefix == str(tmp_path / "kept/usr")
    assert googletest.has_googletest(tmp_path / "kept/usr")


def test_what_was_fetched_once_is_used_again(tmp_path, without_system, monkeypatch, capsys):
    (tmp_path / "usr/include/gtest").mkdir(parents=True)
    (tmp_path / "usr/include/gtest/gtest.h").touch()
    monkeypatch.setattr(googletest, "fetch", lambda folder: pytest.fail("downloads again"))
    assert googletest.main([str(tmp_path)]) == 0


def test_a_failed_download_ends_with_advice(tmp_path, without_system, monkeypatch, capsys):
    monkeypatch.setattr(googletest, "PACKAGE", "no-such-package-anywhere")
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt-get
    assert googletest.main([str(tmp_path / "kept")]) == 1
    assert "apt install libgtest-dev" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def test_an_installed_googletest_is_used_as_it_is(tmp_path, monkeypatch, capsys):
    (tmp_path / "include/gtest").mkdir(parents=True)
    (tmp_path / "include/gtest/gtest.h").touch()
    monkeypatch.setenv("GTEST_ROOT", str(tmp_path))
    assert googletest.main([str(tmp_path / "unused")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
