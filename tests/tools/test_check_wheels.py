"""The check of wheels names each thing that a wheel lacks, or has and should not have."""

import zipfile
from pathlib import Path

import check_wheels
import pytest

LICENCE = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
METADATA = """Metadata-Version: 2.4
Name: part
Version: 1.0
Summary: What it is for
Author: Somebody
License-Expression: Apache-2.0
License-File: LICENSE
Classifier: Typing :: Typed
Project-URL: Homepage, https://example.org
"""
WHOLE = {
    "part/__init__.py": "",
    "part/room/module.py": "",
    "part/_core.pyi": "",
    "part/py.typed": "",
    "part/_core.so": "",
    "part-1.0.dist-info/METADATA": METADATA,
    "part-1.0.dist-info/RECORD": "",
    "part-1.0.dist-info/licenses/LICENSE": LICENCE,
}


@pytest.fixture
def problems_of(tmp_path):
    """A function that packs files into a wheel and returns what the check says of it."""
    for name in ("__init__.py", "room/module.py", "_core.pyi", "py.typed", "__pycache__/x.pyc"):
        file = tmp_path / "src/part" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def check(files):
        wheel = tmp_path / "part-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return [*check_wheels.check_contents(wheel, tmp_path / "src")]

    return check


def test_a_whole_wheel_is_fine(problems_of):
    assert problems_of(WHOLE) == []


@pytest.mark.parametrize("name", ["part/__init__.py", "part/room/module.py", "part/_core.pyi"])
def test_a_module_that_is_left_out_is_named(problems_of, name):
    assert problems_of({key: WHOLE[key] for key in WHOLE if key != name}) == [f"no {name}"]


@pytest.mark.parametrize("name", ["tests/test_part.py", "part/__pycache__/x.pyc", "part/x.o"])
def test_a_file_that_does_not_belong_there_is_named(problems_of, name):
    assert problems_of({**WHOLE, name: ""}) == [f"{name} is no part of it"]


@pytest.mark.parametrize("field", check_wheels.FIELDS)
def test_a_missing_field_of_the_metadata_is_named(problems_of, field):
    lines = METADATA.splitlines(keepends=True)
    metadata = "".join(line for line in lines if not line.startswith(f"{field}:"))
    files = {**WHOLE, "part-1.0.dist-info/METADATA": metadata}
    assert problems_of(files) == [f"no {field} in the metadata"]


@pytest.mark.parametrize("text", [None, "another one"])
def test_another_licence_or_none_is_a_mistake(problems_of, text):
    files = {key: WHOLE[key] for key in WHOLE if not key.endswith("/LICENSE")}
    if text is not None:
        files["part-1.0.dist-info/licenses/LICENSE"] = text
    assert problems_of(files) == ["not the licence of the tree"]


def test_types_must_be_marked(problems_of):
    assert problems_of({key: WHOLE[key] for key in WHOLE if key != "part/py.typed"}) == [
        "no py.typed"
    ]


def test_wheels_that_were_built_before_are_looked_into(tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "tarantella-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tarantella-1.0.dist-info/METADATA", METADATA)
    assert check_wheels.main(["--built", str(tmp_path), "tarantella"]) == 1
    output = capsys.readouterr().out
    assert "no tarantella/__init__.py" in output
    assert "not the licence of the tree" in output
