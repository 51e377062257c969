"""What is told of an error: one line, the user's innermost line, whose consequence it is."""

import sys

import pytest

import tnt_comm
from tnt_comm.failure import describe, one_line

IN_GRAPH = """tf.InvalidArgumentError: Graph execution error:

Detected at node m/Assert defined at (most recent call last):
  File "/work/train.py", line 27, in <module>

  File "/work/model.py", line 24, in call

  File "/env/site-packages/keras/layer.py", line 1002, in __call__

assertion failed: [too big] [x = ] [0.98]
\t [[{{node m/Assert}}]] [Op:__inference_878]
"""

WITHOUT_STACK = """tf.InvalidArgumentError: Graph execution error:

Detected at node GatherV2 defined at (most recent call last):
<stack traces unavailable>
indices = 24 is not in [0, 24)
\t [[{{node GatherV2}}]]
"""

SEVERAL_ERRORS = """tf.UnknownError: Graph execution error:

Detected at node 'a' defined at (most recent call last):
  File "/work/train.py", line 5, in loss
Node: 'a'
2 root error(s) found.
  (0) UNKNOWN:  no such kernel
\t [[{{node a}}]]
  (1) CANCELLED:  operation was cancelled
"""

IN_TRACED_FUNCTION = """ValueError: in user code:

    File "/work/data.py", line 22, in bad  *
        return a @ b, b

    ValueError: Shape must be rank 2 but is rank 1
"""


IN_LAYER = "ValueError: Exception encountered when calling D.call()."
ARGUMENTS = "\n\nArguments received by D.call():\n  • x=tf.Tensor(shape=(4, 4), dtype=float32)\n"


SEVERAL_LINES = "no\nand a second line"
PYTHON = """tf.UnknownError: {{function_node __wrapped__IteratorGetNext}} LookupError: no record
Traceback (most recent call last):

  File "/env/site-packages/tensorflow/script_ops.py", line 269, in __call__
    return func(device, token, args)

  File "/work/data.py", line 38, in records
    raise LookupError("no record")

LookupError: no record

\t [[{{node PyFunc}}]]
"""


def raised(error, *places):
    """Return an error as a call raises it, of which each place is a frame, the innermost last."""
    names = {"error": error}
    program = "raise error"
    for file, line in reversed(places):
        code = compile("\n" * (line - 1) + program, file, "exec")
        names[f"code{len(names)}"] = code
        program = f"exec(code{len(names) - 1})"
    with pytest.raises(type(error)) as caught:
        exec(program, names)
    return caught.value


def printed_as(text):
    """Return an error that Python shows like this."""
    name, _, message = text.partition(": ")
    module, _, kind = name.rpartition(".")
    return type(kind, (Exception,), {"__module__": module or "builtins"})(message)


def line_of(error):
    failure = describe(error)
    return f"{failure.file}:{failure.line}" if failure.file else ""


TRAIN, EXECUTE = ("/work/train.py", 27), ("/env/site-packages/execute.py", 53)


@pytest.mark.parametrize(
    ("error", "line", "told"),
    [
        (
            IN_GRAPH,
            "/work/model.py:24",
            "tf.InvalidArgumentError: assertion failed: [too big] [x = ] [0.98]",
        ),
        (
            WITHOUT_STACK,
            "/work/train.py:27",
            "tf.InvalidArgumentError: indices = 24 is not in [0, 24)",
        ),
        (SEVERAL_ERRORS, "/work/train.py:5", "tf.UnknownError: UNKNOWN:  no such kernel"),
        (
            IN_TRACED_FUNCTION,
            "/work/data.py:22",
            "ValueError: Shape must be rank 2 but is rank 1",
        ),
        (
            "tf.Error: Graph execution error:\n\n",
            "/work/train.py:27",
            "tf.Error: Graph execution error:",
        ),
        (PYTHON, "/work/data.py:38", "tf.UnknownError: LookupError: no record"),
        (
            "tf.InvalidArgumentError: {{function_node __wrapped__IteratorGetNext}} Error in "
            "user-defined function passed to MapDataset:3 transformation with iterator: "
            "Iterator::Root::Map::Map: assertion failed: [too big]",
            "/work/train.py:27",
            "tf.InvalidArgumentError: assertion failed: [too big]",
        ),
        (f"ValueError: {SEVERAL_LINES}", "/work/train.py:27", "ValueError: no"),
    ],
)
def test_the_message_of_an_operation_is_found_below_its_stack(error, line, told):
    error = raised(printed_as(error), TRAIN, EXECUTE)
    assert one_line(error) == told
    assert line_of(error) == line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("broken here", " broken here"),
        ("broken here\nand a second line", " broken here"),
        (
            "Could not infer the shape. Error encountered:\n\nbroken here",
            " Could not infer the shape. Error encountered: broken here",
        ),
        ("", ""),
    ],
)
def test_the_message_of_an_error_in_a_layer_is_joined_to_the_words_of_keras(message, line):
    error = f"{IN_LAYER}\n\n\x1b[1m{message}\x1b[0m{ARGUMENTS}"
    indented = "\n".join(f"    {part}" for part in error.splitlines())
    assert one_line(printed_as(error)) == IN_LAYER + line
    assert one_line(printed_as(f"ValueError: in user code:\n\n{indented}\n")) == IN_LAYER + line


@pytest.mark.parametrize(
    "file",
    [
        "/env/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib64/python3.12/json/decoder.py",
        "/home/user/clone/packages/tnt-keras/src/tnt_keras/api/fit.py",
        "/home/user/clone/packages/tarantella/src/tarantella/__init__.py",
        "/tmp/__autograph_generated_fileab12.py",
        "<frozen importlib._bootstrap>",
        "h5py/h5f.pyx",
    ],
)
def test_frames_of_libraries_are_not_the_users(file):
    assert line_of(raised(ValueError("no"), TRAIN, (file, 3))) == "/work/train.py:27"


def test_the_line_of_what_an_error_was_raised_from_is_told_if_it_has_none_itself():
    first = raised(KeyError(1), ("/work/data.py", 1))
    last = printed_as("ValueError: no")
    last.__cause__ = first
    assert line_of(last) == "/work/data.py:1"
    assert line_of(raised(last, TRAIN, ("/work/model.py", 3))) == "/work/model.py:3"


def test_of_wrong_syntax_the_file_that_has_it_is_told():
    with pytest.raises(SyntaxError) as caught:
        compile("\ndef f(:\n", "/work/model.py", "exec")
    assert one_line(caught.value).startswith("SyntaxError: ")
    assert line_of(caught.value) == "/work/model.py:2"


def test_what_a_message_quotes_is_no_place():
    quoted = 'ValueError: no\nDetected at:\n  File "/work/else.py", line 7, in g\n'
    assert line_of(raised(printed_as(quoted), TRAIN)) == "/work/train.py:27"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="has no groups of exceptions")
def test_of_a_group_of_exceptions_the_group_itself_is_told():
    group = ExceptionGroup("two things", [ValueError("a"), OSError("b")])  # noqa: F821
    assert one_line(group) == "ExceptionGroup: two things (2 sub-exceptions)"


def test_an_error_is_a_consequence_if_one_is_from_which_it_was_raised():
    lost = tnt_comm.PeerLostError("rank 0: lost rank 3")
    assert describe(lost).cause_rank is None
    lost.cause_rank = 3
    assert describe(lost).cause_rank == 3
    later = KeyError(1)
    later.__context__ = lost
    assert describe(later).cause_rank == 3
    later.__suppress_context__ = True
    assert describe(later).cause_rank is None


def test_a_rank_is_not_the_cause_of_itself():
    error = tnt_comm.CommError("rank 0 could not create its part")
    error.cause_rank = tnt_comm.get_rank()
    assert describe(error).cause_rank is None


def test_bytes_of_a_name_that_are_no_text_are_told_escaped():
    assert describe(ValueError("no caf\udce9")).text == "no caf\\udce9"


def test_empty_lines_before_a_message_are_left_out():
    assert one_line(ValueError("\n\n  real text\nmore")) == "ValueError: real text"
    assert one_line(ValueError("")) == "ValueError"


def test_an_error_of_tensorflow_has_the_name_that_users_know():
    names = {"__module__": "tensorflow.python.framework.errors_impl"}
    error = type("InvalidArgumentError", (Exception,), names)("too big")
    assert one_line(error) == "tf.errors.InvalidArgumentError: too big"
