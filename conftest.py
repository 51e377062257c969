"""Fixtures of all suites, and how many examples hypothesis tries."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = ["rank_pools"]

# Without oneDNN TensorFlow computes no gradients of dilated and grouped convolutions on CPUs, and
# leaves some outputs of an operation unset. It uses that by itself on CPUs with AVX-512 only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# A slow machine is no failure: no profile has a deadline per example.
settings.register_profile("usual", deadline=None)
settings.register_profile("short", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("usual")


@pytest.fixture(autouse=True)
def no_global_seed_is_left() -> Iterator[None]:
    """Take TensorFlow's global seed away after a test: it changes what later ones draw."""
    yield
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(None)
