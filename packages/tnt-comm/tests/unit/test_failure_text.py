TENSORFLOW = HEAD + frame("/work/train.py", 27) + frame("/env/site-packages/execute.py", 53)

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


@pytest.mark.parametrize(
    ("error", "line", "exception"),
    [
        (
            IN_GRAPH,
            "model.py:24",
            "tf.InvalidArgumentError: assertion failed: [too big] [x = ] [0.98]",
        ),
        (WITHOUT_STACK, "train.py:27", "tf.InvalidArgumentError: indices = 24 is not in [0, 24)"),
        (SEVERAL_ERRORS, "train.py:5", "tf.UnknownError: UNKNOWN:  no such kernel"),
        (IN_TRACED_FUNCTION, "data.py:22", "ValueError: Shape must be rank 2 but is rank 1"),
        ("tf.Error: Graph execution error:\n\n", "train.py:27", "tf.Error: Graph execution error:"),
    ],
)
def test_the_message_of_an_operation_is_found_below_its_stack(error, line, exception):
    traceback = last_traceback(TENSORFLOW + error)
    assert exception_line(traceback) == exception
    assert line_of(traceback) == line


IN_LAYER = "ValueError: Exception encountered when calling D.call()."
ARGUMENTS = "\n\nArguments received by D.call():\n  • x=tf.Tensor(shape=(4, 4), dtype=float32)\n"


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
    frames = HEAD + frame("/work/train.py", 2)
    assert exception_line(last_traceback(frames + error)) == IN_LAYER + line
    in_function = f"ValueError: in user code:\n\n{indented}\n"
    assert exception_line(last_traceback(frames + in_function)) == IN_LAYER + line


