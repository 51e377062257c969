"""Without TensorFlow, using a name that needs it ends with one sentence: what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            "import tnt_data",
            'tnt_data needs TensorFlow: pip install "tnt-data[tensorflow]", '
            'or "tnt-data[tensorflow-cpu]".',
        ),
        (
            "import tnt_keras; tnt_keras.Model",
            "`Model` needs TensorFlow and Keras, and tensorflow is not installed. Run "
            "`pip install tensorflow`, or `pip install tensorflow-cpu` for a machine without GPUs.",
        ),
    ],
)
def test_the_error_names_both_remedies(program, sentence):
    without = f"import sys; sys.modules['tensorflow'] = None; {program}"
    done = subprocess.run(
        [sys.executable, "-c", without], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {sentence}"
