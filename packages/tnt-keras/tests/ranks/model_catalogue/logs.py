"""What steps return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


def _returning(log_of: Callable[[Any, Any, Any], dict[str, Any]]) -> Training:
    """Return a model whose step returns more logs, made of the model, `x` and `y`."""

    class Returning(OwnStep):
        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            return super().logs(x, y, loss) | log_of(self, x, y)

    model = own_step(mean_squared_error, kind=Returning)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def log_of_a_sum() -> Training:
    return _returning(lambda model, x, y: {"total": tf.reduce_sum(squared_errors(model, x, y))})


@wrong()
def log_of_a_maximum() -> Training:
    return _returning(lambda model, x, y: {"largest": tf.reduce_max(squared_errors(model, x, y))})


@wrong()
def log_of_a_minimum() -> Training:
    return _returning(lambda model, x, y: {"least": tf.reduce_min(squared_errors(model, x, y))})


@wrong()
def log_of_a_deviation() -> Training:
    return _returning(lambda model, x, y: {"spread": tf.math.reduce_std(model(x))})


@wrong()
def log_of_a_perplexity() -> Training:
    """The exponential of a mean."""
    return _returning(lambda model, x, y: {"perplexity": tf.exp(mean_squared_error(model, x, y))})


@wrong()
def log_of_a_quotient() -> Training:
    def precision(model: Any, x: Any, y: Any) -> dict[str, Any]:
        positive = tf.cast(model(x) > 0.1, tf.float32)
        hits = positive * tf.cast(y > 0.0, tf.float32)
        return {"precision": tf.reduce_sum(hits) / (tf.reduce_sum(positive) + 0.1)}

    return _returning(precision)


@wrong()
def log_of_the_number_of_rows() -> Training:
    return _returning(lambda model, x, y: {"rows": tf.shape(x)[0]})


@wrong()
def log_of_the_gradient_norm() -> Training:
    """Taken from the gradients of the batch, before they are applied."""

    class Norm(OwnStep):
        def changed(self, gradients: list[Any]) -> list[Any]:
            self.norm = tf.linalg.global_norm(gradients)
            return gradients

        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            return super().logs(x, y, loss) | {"norm": self.norm}

    model = own_step(mean_squared_error, kind=Norm)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def learning_rate_among_logs() -> Training:
    """The variable itself."""
    return _returning(lambda model, x, y: {"rate": model.optimizer.learning_rate})


@wrong()
def nested_logs() -> Training:
    """The Keras guides' `{m.name: m.result() for m in self.metrics}`, with compiled metrics."""

    class Guide(keras.Model):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                outputs = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=outputs)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, outputs)
            return {metric.name: metric.result() for metric in self.metrics}

    inner = network()
    model = Guide(inner.inputs, inner.outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    return model, data.of_arrays(data.features(), data.targets())


@right()
def log_of_a_mean() -> Training:
    return _returning(lambda model, x, y: {"mean": tf.reduce_mean(model(x))})


@right()
def log_of_the_weights() -> Training:
    return _returning(
        lambda model, x, y: {"norm": tf.linalg.global_norm(model.trainable_variables)}
    )


@right()
def log_of_the_rate() -> Training:
    return _returning(
        lambda model, x, y: {"rate": tf.convert_to_tensor(model.optimizer.learning_rate)}
    )
