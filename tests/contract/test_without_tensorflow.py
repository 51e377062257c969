"""Without TensorFlow, importing a package that needs it ends with one sentence: what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["tnt-data", "tnt-keras"])
def test_the_error_names_both_remedies(package):
    module = package.replace("-", "_")
    program = f"import sys; sys.modules['tensorflow'] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f'ImportError: {module} needs TensorFlow: pip install "{package}[tensorflow]", '
        f'or "{package}[tensorflow-cpu]".'
    )
