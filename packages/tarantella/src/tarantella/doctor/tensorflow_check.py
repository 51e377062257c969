"""Import TensorFlow, Keras and the operations of tnt-keras, and tell what comes of it."""

from __future__ import annotations

import time

from tarantella.doctor.tell import attempt, tell


def main() -> None:
    """Tell about one after the other, until one fails."""
    checks = {
        "TensorFlow": _look_at_tensorflow,
        "Keras": _look_at_keras,
        "operations": _look_at_operations,
    }
    all(attempt(check, look) for check, look in checks.items())


def _look_at_tensorflow() -> None:
    begin_s = time.monotonic()
    import tensorflow as tf

    tell(
        "tensorflow",
        version=tf.__version__,
        seconds=time.monotonic() - begin_s,
        is_built_for_gpus=tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm(),
        gpus=len(tf.config.list_physical_devices("GPU")),
    )


def _look_at_keras() -> None:
    import keras

    tell("keras", version=keras.__version__, backend=keras.backend.backend())


def _look_at_operations() -> None:
    from tnt_keras.keras_hooks import private, private_tensorflow
    from tnt_keras.process.framework import op_library

    private_tensorflow.check_version()
    private.check_version()
    op_library()
    tell("operations")


if __name__ == "__main__":
    main()
