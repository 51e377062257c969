"""The last traceback is found among other output, with its exception and the user's own line."""

import subprocess
import sys

import pytest

from tnt_launch.running.traceback_text import exception_line, last_traceback, user_line

HEAD = "Traceback (most recent call last):\n"
OWN = HEAD + "  somewhere\nValueError: no\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"


def frame(file, line, name="f"):
    return f'  File "{file}", line {line}, in {name}\n    code()\n    ^^^^^^\n'


def line_of(text):
    return user_line(last_traceback(text), "/work", "train.py")


def test_the_last_traceback_is_cut_out_with_its_chain():
    chain = OWN + DURING + OWN
    assert last_traceback("start\n" + OWN + "middle\n" + chain) == chain.rstrip("\n")
    assert last_traceback("nothing\n") == ""


def test_the_exception_is_its_first_line_without_notes():
    assert exception_line(OWN + "a note\n") == "ValueError: no"
    assert exception_line(OWN + CAUSE + HEAD + frame("a.py", 1) + "a.B: x\n y\n") == "a.B: x"
    assert exception_line("") == ""


def test_of_a_group_of_exceptions_the_group_itself_is_told():
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/work/train.py", line 7, in <module>\n'
        '  |     raise ExceptionGroup("two things", [ValueError("a"), OSError("b")])\n'
        "  | ExceptionGroup: two things (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/work/other.py", line 3, in f\n'
        "    | ValueError: a\n"
        "    +---------------- 2 ----------------\n"
        "    | OSError: b\n"
        "    +------------------------------------\n"
    )
    found = last_traceback("before\n" + text)
    assert found == text.rstrip("\n")
    assert exception_line(found) == "ExceptionGroup: two things (2 sub-exceptions)"
    assert line_of(text) == "train.py:7"


@pytest.mark.parametrize(
    "file",
    [
        "/env/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib64/python3.12/json/decoder.py",
        "/home/user/clone/packages/tnt-keras/src/tnt_keras/api/fit.py",
        "/home/user/clone/packages/tarantella/src/tarantella/__init__.py",
        "<frozen importlib._bootstrap>",
    ],
)
def test_frames_of_libraries_are_not_the_users(file):
    text = HEAD + frame("/work/a/train.py", 12) + frame(file, 3) + "ValueError: no\n"
    assert line_of(text) == "a/train.py:12"
    assert line_of(HEAD + frame(file, 3) + "ValueError: no\n") == "train.py"


@pytest.mark.parametrize("folder", ["tarantella/models/lenet5", "src/tarantella", "tnt_data"])
def test_a_script_in_a_folder_named_like_the_project_is_the_users(folder):
    file = f"/home/user/{folder}/train.py"
    assert line_of(HEAD + frame(file, 12) + "ValueError: no\n") == f"{file}:12"


def test_the_innermost_line_of_the_last_exception_is_taken():
    first = HEAD + frame("/work/data.py", 1) + "KeyError: 1\n"
    last = HEAD + frame("/work/train.py", 2) + frame("/work/model.py", 3) + "ValueError: no\n"
    assert line_of(first + DURING + last) == "model.py:3"
    library = HEAD + frame("/env/site-packages/x.py", 9) + "ValueError: no\n"
    assert line_of(first + CAUSE + library) == "data.py:1"


def test_what_a_message_quotes_is_no_frame():
    quoted = 'ValueError: no\nDetected at:\n  File "/work/else.py", line 7, in g\n'
    assert line_of(HEAD + frame("/work/train.py", 2) + quoted) == "train.py:2"


def test_marks_below_a_frame_are_not_the_exception():
    marked = frame("/work/train.py", 3) + "    f()\n^^^^\n" + frame("/work/train.py", 2)
    traceback = last_traceback(HEAD + marked + "ValueError: no\n")
    assert exception_line(traceback) == "ValueError: no"
    assert user_line(traceback, "/work", "script") == "train.py:2"


@pytest.mark.parametrize(
    ("script", "line", "exception"),
    [
        ("def f(:\n    pass\n", 1, "SyntaxError: "),
        ("if 1:\npass\n", 2, "IndentationError: "),
        ("\n\nint('x')\n", 3, "ValueError: "),
        ("try:\n    {}[1]\nexcept KeyError as e:\n    raise ValueError('a\\nb') from e", 4, "V"),
        ("e = ValueError('no')\nif hasattr(e, 'add_note'): e.add_note('n')\nraise e", 3, "V"),
        ("import json\n\njson.loads('{')\n", 3, "json.decoder.JSONDecodeError: "),
    ],
)
def test_tracebacks_of_this_python_are_understood(tmp_path, script, line, exception):
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, str(tmp_path / "train.py")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    traceback = last_traceback("before\n" + done.stderr)
    assert user_line(traceback, str(tmp_path), "script") == f"train.py:{line}"
    assert exception_line(traceback).startswith(exception)
