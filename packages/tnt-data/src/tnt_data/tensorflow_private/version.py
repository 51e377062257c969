"""Which releases of TensorFlow have the classes that are known here; touches nothing private."""

from __future__ import annotations

import tensorflow as tf

KNOWN_VERSIONS = ((2, 18), (2, 19), (2, 20), (2, 21))


def is_known_version() -> bool:
    """Whether this release of TensorFlow is one whose step classes were tested. Local."""
    major, minor = tf.__version__.split(".")[:2]
    return (int(major), int(minor)) in KNOWN_VERSIONS
