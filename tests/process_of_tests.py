"""What tests need of their process; `packages/*/tests/unit/conftest.py` are copies of this file.

With them the unit tests of a package run from its sdist, without the tree. In the tree this file
comes first, and the copies change nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.errors import InvalidArgument

# Without oneDNN TensorFlow computes no gradients of dilated and grouped convolutions on CPUs, and
# leaves some outputs of an operation unset. It uses that by itself on CPUs with AVX-512 only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

try:
    settings.get_profile("usual")  # of the tree: an option of pytest may have loaded another one
except InvalidArgument:
    # A slow machine is no failure: no profile has a deadline per example.
    settings.register_profile("usual", deadline=None)
    settings.register_profile("short", deadline=None, max_examples=25)
    settings.register_profile("thorough", deadline=None, max_examples=1000)
    settings.load_profile("usual")


def pytest_configure(config: pytest.Config) -> None:
    """Say what the mark of the long tail means."""
    mark = "thorough: only in `nox -s thorough`, one of many combinations or a long run"
    config.addinivalue_line("markers", mark)


@pytest.fixture(autouse=True)
def no_global_seed_is_left() -> Iterator[None]:
    """Take TensorFlow's global seed away after a test: it changes what later ones draw."""
    yield
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(None)
