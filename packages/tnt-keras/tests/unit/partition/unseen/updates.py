"""Updates of their own: second derivatives, sharpness, preconditioners, weights of losses."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from .case import Training, chosen, drawn, fitted, script
from .own_step import OwnLoss


def _classifier(kind: Any, optimizer: Any, **more: Any) -> Training:
    x = keras.Input((6,))
    model = kind(x, layers.Dense(3)(layers.Dense(8, activation="tanh")(x)), **more)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    return model, fitted(drawn(6), chosen(3))


@script()
def sharpness_aware_minimisation() -> Training:
    class Sharp(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            variables = self.trainable_variables
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            grads = tape.gradient(loss, variables)
            scale = 0.05 / (tf.linalg.global_norm(grads) + 1e-12)
            moves = [g * scale * tf.abs(v) for g, v in zip(grads, variables, strict=True)]
            for v, m in zip(variables, moves, strict=True):
                v.assign_add(m)
            with tf.GradientTape() as tape:
                out = self(x, training=True)
                sharp = self.compute_loss(x, y, out)
            grads = tape.gradient(sharp, variables)
            for v, m in zip(variables, moves, strict=True):
                v.assign_sub(m)
            self.optimizer.apply_gradients(zip(grads, variables, strict=True))
            logs = self.compute_metrics(x, y, out)
            return {**logs, "sharpness": sharp - loss}

    return _classifier(Sharp, keras.optimizers.SGD(0.1, momentum=0.9))


@script(rtol=3e-4)
def preconditioned_by_roots_of_matrices() -> Training:
    class Shampoo(keras.optimizers.Optimizer):
        def build(self, variables: Any) -> None:
            super().build(variables)
            self.sides = [
                [
                    self.add_variable((s, s), initializer="zeros", name=f"side_{i}")
                    for i, s in enumerate(v.shape)
                ]
                for v in variables
            ]

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            sides = self.sides[self._get_variable_index(variable)]
            update = gradient
            for i, side in enumerate(sides):
                flat = tf.reshape(
                    tf.experimental.numpy.moveaxis(gradient, i, 0), [side.shape[0], -1]
                )
                total = side + tf.matmul(flat, flat, transpose_b=True)
                side.assign(total)
                values, vectors = tf.linalg.eigh(total + 0.1 * tf.eye(side.shape[0]))
                root = vectors * tf.maximum(values, 1e-2) ** (-0.5 / len(sides))
                root = tf.matmul(root, vectors, transpose_b=True)
                update = tf.experimental.numpy.moveaxis(
                    tf.tensordot(root, update, [[1], [i]]), 0, i
                )
            variable.assign_sub(learning_rate * update)

    return _classifier(keras.Model, Shampoo(0.05))


@script()
def clipped_by_curvature_of_drawn_directions() -> Training:
    class Curved(keras.Model):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.generator = keras.random.SeedGenerator(2)
            self.curvature = [
                self.add_weight(v.shape, "zeros", trainable=False, name=f"curvature_{i}")
                for i, v in enumerate(self.trainable_variables)
            ]
            self.steps = self.add_weight((), "zeros", dtype="int32", trainable=False, name="steps")

        def train_step(self, data: Any) -> Any:
            x, y = data
            variables = self.trainable_variables
            directions = [keras.random.normal(v.shape, seed=self.generator) for v in variables]
            with tf.GradientTape() as outer:
                with tf.GradientTape() as tape:
                    out = self(x, training=True)
                    loss = self.compute_loss(x, y, out)
                grads = tape.gradient(loss, variables)
                along = tf.add_n(
                    [tf.reduce_sum(g * d) for g, d in zip(grads, directions, strict=True)]
                )
            products = outer.gradient(along, variables)
            often = self.steps % 2 == 0
            for g, v, h, d, p in zip(
                grads, variables, self.curvature, directions, products, strict=True
            ):
                h.assign(tf.where(often, 0.9 * h + 0.1 * d * p, h))
                v.assign_sub(0.05 * tf.clip_by_value(g / tf.maximum(h, 1e-2), -1.0, 1.0))
            self.steps.assign_add(1)
            return self.compute_metrics(x, y, out)

    return _classifier(Curved, "sgd")


@script(rtol=1e-4)
def natural_gradients_by_factors() -> Training:
    class Factored(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.w = [
                self.add_weight((7, 5), "glorot_uniform"),
                self.add_weight((6, 3), "glorot_uniform"),
            ]
            self.inputs_of = [self.add_weight((s, s), "identity", trainable=False) for s in (7, 6)]
            self.slopes_of = [self.add_weight((s, s), "identity", trainable=False) for s in (5, 3)]

        def call(self, x: Any) -> Any:
            return self.run(x)[-1]

        def run(self, x: Any) -> Any:
            first = tf.concat([x, tf.ones_like(x[:, :1])], -1)
            middle = tf.matmul(first, self.w[0])
            hidden = tf.tanh(middle)
            second = tf.concat([hidden, tf.ones_like(x[:, :1])], -1)
            return first, middle, second, tf.matmul(second, self.w[1])

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                first, middle, second, logits = self.run(x)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            *grads, of_middle, of_logits = tape.gradient(loss, [*self.w, middle, logits])
            rows = tf.cast(tf.shape(x)[0], tf.float32)
            for w, g, a, s, u, v in zip(
                self.w,
                grads,
                self.inputs_of,
                self.slopes_of,
                (first, second),
                (of_middle, of_logits),
                strict=True,
            ):
                a.assign(0.9 * a + 0.1 * tf.matmul(u, u, transpose_a=True) / rows)
                s.assign(0.9 * s + 0.1 * tf.matmul(v, v, transpose_a=True) * rows)
                left = tf.linalg.cholesky_solve(tf.linalg.cholesky(a + 0.1 * tf.eye(a.shape[0])), g)
                w.assign_sub(
                    0.02
                    * tf.transpose(
                        tf.linalg.solve(s + 0.1 * tf.eye(s.shape[0]), tf.transpose(left))
                    )
                )
            self.compiled_metrics_of(y, logits)
            return {"loss": loss, **{m.name: m.result() for m in self.own_metrics}}

        def compiled_metrics_of(self, y: Any, logits: Any) -> None:
            for metric in self.own_metrics:
                metric.update_state(y, logits)

        @property
        def metrics(self) -> Any:
            return self.own_metrics

    model = Factored()
    model.own_metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    return model, fitted(drawn(6), chosen(3))


class _TwoTasks(OwnLoss):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.heads = (
            layers.Dense(6, activation="tanh"),
            [layers.Dense(1), layers.Dense(3)],
        )

    def call(self, x: Any) -> Any:
        x = self.trunk(x)
        return [head(x) for head in self.heads]

    def tasks(self, data: Any) -> list[Any]:
        x, (value, kind) = data
        a, b = self(x)
        kinds = tf.nn.sparse_softmax_cross_entropy_with_logits(kind, b)
        return [tf.reduce_mean((a - value) ** 2), tf.reduce_mean(kinds)]


def _two_tasks(model: Any) -> Training:
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(drawn(5), (drawn(1, seed=3), chosen(3)))


@script(evaluates=False)
def tasks_balanced_by_norms_of_gradients() -> Training:
    class TwoTasks(_TwoTasks):
        def __init__(self) -> None:
            super().__init__()
            self.w = self.add_weight((2,), "ones", trainable=False, name="w")
            self.first = self.add_weight((2,), "zeros", trainable=False, name="first")

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape(persistent=True) as tape:
                losses = tf.stack(self.tasks(data))
                w = tf.convert_to_tensor(self.w)
                tape.watch(w)
                total = tf.reduce_sum(w * losses)
                parts = [w[i] * losses[i] for i in range(2)]
                shared = self.trunk.kernel
                norms = tf.stack([tf.norm(tape.gradient(p, shared)) for p in parts])
                self.first.assign(tf.where(self.first == 0.0, losses, self.first))
                rates = losses / self.first
                rates = rates / tf.reduce_mean(rates)
                goal = tf.stop_gradient(tf.reduce_mean(norms) * rates**1.5)
                balance = tf.reduce_sum(tf.abs(norms - goal))
            variables = self.trainable_variables
            grads = tape.gradient(total, variables)
            of_w = tape.gradient(balance, w)
            self.optimizer.apply_gradients(zip(grads, variables, strict=True))
            w = tf.maximum(w - 0.05 * of_w, 0.1)
            self.w.assign(2 * w / tf.reduce_sum(w))
            return {"loss": total, "balance": balance}

    return _two_tasks(TwoTasks())


@script(evaluates=False)
def conflicting_gradients_projected() -> Training:
    class TwoTasks(_TwoTasks):
        def train_step(self, data: Any) -> Any:
            with tf.GradientTape(persistent=True) as tape:
                losses = self.tasks(data)
            variables, zero = self.trainable_variables, tf.UnconnectedGradients.ZERO
            grads = [
                tape.gradient(loss, [v.value for v in variables], unconnected_gradients=zero)
                for loss in losses
            ]
            flat = [tf.concat([tf.reshape(g, [-1]) for g in each], 0) for each in grads]
            dot = tf.reduce_sum(flat[0] * flat[1])

            def projected(a: Any, b: Any) -> Any:
                return a - tf.minimum(dot, 0.0) / (tf.reduce_sum(b**2) + 1e-9) * b

            whole = projected(flat[0], flat[1]) + projected(flat[1], flat[0])
            parts = tf.split(whole, [v.shape.num_elements() for v in variables])
            parts = [tf.reshape(p, v.shape) for p, v in zip(parts, variables, strict=True)]
            self.optimizer.apply_gradients(zip(parts, variables, strict=True))
            return {"loss": tf.add_n(losses), "dot": dot}

    return _two_tasks(TwoTasks())


@script()
def tasks_weighted_by_uncertainty_and_curriculum() -> Training:
    class TwoTasks(_TwoTasks):
        def __init__(self) -> None:
            super().__init__()
            self.s = self.add_weight((2,), "zeros", name="s")
            self.margin = self.add_weight((), "zeros", trainable=False, name="margin")

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            losses = tf.stack(self.tasks(data))
            if training:
                mean = tf.reduce_mean(losses)
                step = tf.where(mean < 1.2, 0.3, -0.1)
                self.margin.assign(tf.clip_by_value(self.margin + step, 0.0, 0.5))
            total = tf.reduce_sum(tf.exp(-self.s) * losses + self.s)
            return total + tf.nn.relu(self.margin - losses[0]), {"margin": self.margin.value}

    return _two_tasks(TwoTasks())


@script(policy="mixed_float16", rtol=2e-3)
def scaled_losses_in_half_precision() -> Training:
    return _classifier(
        keras.Model,
        keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(0.01, clipvalue=0.5),
            initial_scale=2.0**18,
            dynamic_growth_steps=3,
        ),
    )


@script()
def gradients_accumulated_with_averaged_weights() -> Training:
    return _classifier(
        keras.Model,
        keras.optimizers.AdamW(
            0.01,
            gradient_accumulation_steps=2,
            use_ema=True,
            ema_overwrite_frequency=3,
            global_clipnorm=0.5,
        ),
    )


@script(gathers="StridedSlice")
def weights_looked_ahead_and_microbatches() -> Training:
    class Ahead(keras.Model):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.slow = [tf.Variable(v.value, trainable=False) for v in self.trainable_variables]
            self.steps = self.add_weight((), "zeros", dtype="int32", trainable=False, name="steps")

        def train_step(self, data: Any) -> Any:
            x, y = data
            rows = tf.shape(x)[0]
            variables = self.trainable_variables
            half = rows // 2

            def gradients(x: Any, y: Any) -> Any:
                with tf.GradientTape() as tape:
                    out = self(x, training=True)
                    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, out))
                return loss, tape.gradient(loss, variables)

            first, a = gradients(x[:half], y[:half])
            second, b = gradients(x[half:], y[half:])
            count = tf.cast(rows, tf.float32)
            grads = [(g + h) / count for g, h in zip(a, b, strict=True)]
            noise = tf.add_n([tf.reduce_sum((g - h) ** 2) for g, h in zip(a, b, strict=True)])
            self.optimizer.apply_gradients(zip(grads, variables, strict=True))
            self.steps.assign_add(1)
            for slow, fast in zip(self.slow, variables, strict=True):
                new = tf.where(self.steps % 2 == 0, slow + 0.5 * (fast - slow), slow)
                fast.assign(tf.where(self.steps % 2 == 0, new, fast))
                slow.assign(new)
            logs = self.compute_metrics(x, y, self(x))
            return {**logs, "loss": (first + second) / count, "noise": noise}

    return _classifier(Ahead, keras.optimizers.Adam(0.02))
