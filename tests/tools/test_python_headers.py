"""Headers are taken from a wheel only where they fit the running Python."""

import sys
import sysconfig
import zipfile

import pytest
import python_headers


@pytest.fixture
def wheel(tmp_path):
    """A function that writes a wheel with the headers of some Python version."""

    def write(version, name="Python.h"):
        path = tmp_path / "tensorflow-2.21.0-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tensorflow/__init__.py", "")
            archive.writestr(f"tensorflow/include/external/py/{name}", "#pragma once\n")
            define = f'#define PY_VERSION              "{version}"\n'
            archive.writestr("tensorflow/include/external/py/patchlevel.h", define)
            archive.writestr("tensorflow/include/external/py/cpython/object.h", "")
        return path

    return write


def test_headers_of_the_running_python_are_copied_with_their_folders(wheel, tmp_path):
    version = f"{python_headers.MINOR}.99"
    python_headers.extract_headers(wheel(version), tmp_path / "headers")
    copied = {str(p.relative_to(tmp_path / "headers")) for p in (tmp_path / "headers").rglob("*.h")}
    assert copied == {"Python.h", "patchlevel.h", "cpython/object.h"}
    assert python_headers.headers_version(tmp_path / "headers") == python_headers.MINOR


def test_headers_of_another_minor_version_are_refused(wheel, tmp_path):
    with pytest.raises(LookupError, match=r"headers of Python 3\.4, not of .*python3-dev"):
        python_headers.extract_headers(wheel("3.4.1"), tmp_path / "headers")


def test_a_wheel_without_headers_is_refused(wheel, tmp_path):
    with pytest.raises(LookupError, match=r"contains no Python\.h.*python3-dev"):
        python_headers.extract_headers(wheel("3.11.1", name="Other.h"), tmp_path / "headers")


def test_a_failed_download_ends_with_advice(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    monkeypatch.setattr(python_headers, "REQUIREMENT", "./no-such-wheel.whl")
    assert python_headers.main([str(tmp_path / "headers")]) == 1
    assert "apt install python3-dev" in capsys.readouterr().err
    assert not (tmp_path / "headers").exists()


def test_headers_that_the_system_has_are_used_as_they_are(monkeypatch, tmp_path, capsys):
    (tmp_path / "Python.h").touch()
    (tmp_path / "patchlevel.h").write_text(f'#define PY_VERSION "{sys.version.split()[0]}"\n')
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert python_headers.main([str(tmp_path / "unused")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
