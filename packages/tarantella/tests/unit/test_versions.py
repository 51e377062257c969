"""The version table names all parts, installed or not."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import tarantella as tnt
from tarantella import _versions


def test_the_table_starts_with_the_parts_and_ends_with_python(monkeypatch):
    for name in [name for name in os.environ if name.startswith("UCX_")]:
        monkeypatch.delenv(name)
    table = tnt.versions()
    assert list(table)[:5] == ["tarantella", "tnt-comm", "tnt-data", "tnt-keras", "tnt-launch"]
    assert list(table)[-1] == "python"
    assert table["python"] == platform.python_version()
    assert table["tnt-comm"] == version("tnt-comm")


def test_settings_of_ucx_are_shown(monkeypatch):
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    assert list(tnt.versions().items())[-1] == ("UCX_TLS", "tcp,self")


def test_the_gpu_less_wheel_counts_as_tensorflow(monkeypatch):
    installed = {"tensorflow-cpu": "2.21.0"}

    def look_up(name):
        if name in installed:
            return installed[name]
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_versions, "version", look_up)
    table = _versions.versions()
    assert table["tensorflow"] == "2.21.0"
    assert table["keras"] == "not installed"
