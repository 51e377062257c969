"""Several networks against or beside each other, and learning from rewards."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from .case import Training, chosen, drawn, fitted, script
from .own_step import OwnLoss, mlp


class _Several(keras.Model):
    """A model with optimizers of its own."""

    def optimized(self, *optimizers: Any) -> _Several:
        self.own_optimizers = list(optimizers)
        self.compile()
        return self


@script(evaluates=False, predicts=False)
def critic_with_penalised_gradients_and_several_turns() -> Training:
    class Adversaries(_Several):
        def __init__(self) -> None:
            super().__init__()
            self.make, self.judge = mlp(3, 8, 4), mlp(4, 8, 1, activation="tanh")
            self.generator = keras.random.SeedGenerator(6)

        def train_step(self, real: Any) -> Any:
            rows = tf.shape(real)[0]
            of_critic, of_maker = self.own_optimizers
            for _ in range(2):
                z = keras.random.normal((rows, 3), seed=self.generator)
                with tf.GradientTape() as tape:
                    fake = self.make(z)
                    share = keras.random.uniform((rows, 1), seed=self.generator)
                    mixed = real + share * (fake - real)
                    with tf.GradientTape() as inner:
                        inner.watch(mixed)
                        score = self.judge(mixed)
                    slope = inner.gradient(score, mixed)
                    norm = tf.sqrt(tf.reduce_sum(slope**2, 1) + 1e-12)
                    penalty = tf.reduce_mean((norm - 1) ** 2)
                    apart = tf.reduce_mean(self.judge(fake)) - tf.reduce_mean(self.judge(real))
                    loss = apart + 10 * penalty
                of_critic.apply_gradients(
                    zip(
                        tape.gradient(loss, self.judge.trainable_variables),
                        self.judge.trainable_variables,
                        strict=True,
                    )
                )
            z = keras.random.normal((rows, 3), seed=self.generator)
            with tf.GradientTape() as tape:
                made = -tf.reduce_mean(self.judge(self.make(z)))
            grads = tape.gradient(made, self.make.trainable_variables)
            of_maker.apply_gradients(zip(grads, self.make.trainable_variables, strict=True))
            return {"critic": loss, "maker": made, "norm": tf.norm(slope)}

    adam = [keras.optimizers.Adam(0.005, beta_1=0.0, beta_2=0.9) for _ in range(2)]
    return Adversaries().optimized(*adam), fitted(drawn(4))


@script(evaluates=False, predicts=False, amplifies=True)
def styles_mixed_with_path_lengths() -> Training:
    class Styles(_Several):
        def __init__(self) -> None:
            super().__init__()
            self.map = mlp(3, 6, 4, activation="leaky_relu")
            self.base = self.add_weight((1, 2, 2, 3), "random_normal", name="base")
            self.kernel = self.add_weight((3, 3, 3, 3), "glorot_uniform", name="kernel")
            self.style, self.paint = layers.Dense(3), layers.Conv2D(1, 1)
            self.judge = keras.Sequential(
                [
                    keras.Input((4, 4, 1)),
                    layers.Conv2D(4, 3, strides=2),
                    layers.Flatten(),
                    layers.Dense(1),
                ]
            )
            self.mean_length = self.add_weight((), "zeros", trainable=False, name="mean_length")
            self.mean_style = self.add_weight((4,), "zeros", trainable=False, name="mean_style")
            self.steps = self.add_weight((), "zeros", dtype="int32", trainable=False, name="steps")
            self.generator = keras.random.SeedGenerator(6)
            self.style.build((None, 4))
            self.paint.build((None, 4, 4, 3))

        def painted(self, w: Any) -> Any:
            """Modulated and demodulated convolution: a kernel for each sample."""
            rows = tf.shape(w)[0]
            x = tf.repeat(tf.repeat(tf.tile(self.base, [rows, 1, 1, 1]), 2, 1), 2, 2)
            kernel = self.kernel[None] * (self.style(w) + 1)[:, None, None, :, None]
            kernel *= tf.math.rsqrt(tf.reduce_sum(kernel**2, [1, 2, 3], keepdims=True) + 1e-3)
            patches = tf.image.extract_patches(x, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME")
            x = tf.einsum("nhwk,nko->nhwo", patches, tf.reshape(kernel, [rows, 27, 3]))
            x += 0.1 * keras.random.normal((rows, 4, 4, 1), seed=self.generator)
            return self.paint(tf.nn.leaky_relu(x))

        def styles(self, rows: Any) -> Any:
            z = keras.random.normal((2, rows, 3), seed=self.generator)
            first, second = self.map(z[0]), self.map(z[1])
            mix = keras.random.uniform((), seed=self.generator) < 0.5
            return tf.where(mix & (tf.range(4) > 1), second, first)

        def train_step(self, real: Any) -> Any:
            rows = tf.shape(real)[0]
            of_judge, of_maker = self.own_optimizers
            with tf.GradientTape() as tape:
                fake = self.painted(self.styles(rows))
                with tf.GradientTape() as inner:
                    inner.watch(real)
                    score = self.judge(real)
                slope = inner.gradient(score, real)
                loss = tf.reduce_mean(tf.nn.softplus(self.judge(fake)) + tf.nn.softplus(-score))
                often = tf.cast(self.steps % 2 == 0, tf.float32)
                loss += often * 5 * tf.reduce_mean(tf.reduce_sum(slope**2, [1, 2, 3]))
            variables = self.judge.trainable_variables
            of_judge.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            variables = [
                *self.map.trainable_variables,
                self.base,
                self.kernel,
                *self.style.trainable_variables,
                *self.paint.trainable_variables,
            ]
            with tf.GradientTape() as tape:
                w = self.styles(rows)
                with tf.GradientTape() as inner:
                    inner.watch(w)
                    fake = self.painted(w)
                    noise = keras.random.normal(tf.shape(fake), seed=self.generator) / 4.0
                    seen = tf.reduce_sum(fake * noise)
                length = tf.sqrt(tf.reduce_sum(inner.gradient(seen, w) ** 2, -1) + 1e-8)
                mean = self.mean_length + 0.1 * (tf.reduce_mean(length) - self.mean_length)
                made = tf.reduce_mean(tf.nn.softplus(-self.judge(fake)))
                made += tf.reduce_mean((length - tf.stop_gradient(mean)) ** 2)
            of_maker.apply_gradients(zip(tape.gradient(made, variables), variables, strict=True))
            self.mean_length.assign(mean)
            self.mean_style.assign(tf.reduce_mean(w, 0) * 0.1 + self.mean_style * 0.9)
            self.steps.assign_add(1)
            return {"judge": loss, "maker": made}

    adam = [keras.optimizers.Adam(0.003, beta_1=0.0) for _ in range(2)]
    return Styles().optimized(*adam), fitted(drawn(4, 4, 1))


@script(evaluates=False, predicts=False, gathers="StridedSlice")
def cycles_of_two_translations_with_a_pool() -> Training:
    class Cycles(_Several):
        def __init__(self) -> None:
            super().__init__()
            self.there, self.back = mlp(4, 8, 4), mlp(4, 8, 4)
            self.judges = [mlp(4, 6, 1), mlp(4, 6, 1)]
            self.pool = self.add_weight((6, 4), "zeros", trainable=False, name="pool")
            self.filled = self.add_weight(
                (), "zeros", dtype="int32", trainable=False, name="filled"
            )

        def pooled(self, fake: Any) -> Any:
            """Fakes of earlier batches in the place of some of this one's."""
            old = tf.convert_to_tensor(self.pool)[:2]
            self.pool.assign(tf.concat([fake[:2], self.pool[2:], old], 0)[:6])
            self.filled.assign(tf.minimum(self.filled + 2, 6))
            return tf.cond(self.filled > 2, lambda: tf.concat([old, fake[2:]], 0), lambda: fake)

        def train_step(self, data: Any) -> Any:
            a, b = data
            with tf.GradientTape(persistent=True) as tape:
                fake_b, fake_a = self.there(a), self.back(b)
                cycle = tf.reduce_mean(tf.abs(self.back(fake_b) - a))
                cycle += tf.reduce_mean(tf.abs(self.there(fake_a) - b))
                same = tf.reduce_mean(tf.abs(self.there(b) - b) + tf.abs(self.back(a) - a))
                of_there = tf.reduce_mean((self.judges[1](fake_b) - 1) ** 2)
                of_back = tf.reduce_mean((self.judges[0](fake_a) - 1) ** 2)
                makers = of_there + of_back + 10 * cycle + 5 * same
                old = self.pooled(tf.stop_gradient(fake_a))
                judged_a = tf.reduce_mean((self.judges[0](a) - 1) ** 2)
                judged_a += tf.reduce_mean(self.judges[0](old) ** 2)
                judged_b = tf.reduce_mean(
                    (self.judges[1](b) - 1) ** 2 + self.judges[1](fake_b) ** 2
                )
            parts = [
                (makers, self.there),
                (makers, self.back),
                (judged_a, self.judges[0]),
                (judged_b, self.judges[1]),
            ]
            for optimizer, (loss, net) in zip(self.own_optimizers, parts, strict=True):
                variables = net.trainable_variables
                optimizer.apply(tape.gradient(loss, variables), variables)
            del tape
            return {"makers": makers, "cycle": cycle, "judges": judged_a + judged_b}

    optimizers = [keras.optimizers.Adam(0.003, beta_1=0.5) for _ in range(4)]
    return Cycles().optimized(*optimizers), fitted(drawn(4), drawn(4, seed=3))


@script(gathers="AddV2 Mul StridedSlice")
def policy_with_clipped_ratios_and_normalised_advantages() -> Training:
    class Proximal(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.value = mlp(5, 8, 3, activation="tanh"), mlp(5, 8, 1)
            self.old = keras.models.clone_model(self.actor)
            self.old.trainable = False
            self.weight = self.add_weight((), "ones", trainable=False, name="weight")

        def call(self, x: Any) -> Any:
            return tf.nn.softmax(self.actor(x))

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            state, (action, reward, done) = data
            value = self.value(state)[:, 0]
            following = tf.concat([value[1:], value[-1:]], 0)
            delta = reward + 0.9 * following * (1 - done) - value

            def turn(total: Any, given: Any) -> Any:
                d, end = given
                return d + 0.8 * (1 - end) * total

            advantage = tf.scan(turn, (delta, done), initializer=0.0, reverse=True)
            goal = tf.stop_gradient(advantage + value)
            advantage = tf.stop_gradient(advantage)
            mean, variance = tf.nn.moments(advantage, [0])
            advantage = (advantage - mean) / (tf.sqrt(variance) + 1e-3)
            new, old = tf.nn.log_softmax(self.actor(state)), tf.nn.log_softmax(self.old(state))
            places = tf.stack([tf.range(tf.shape(action)[0]), action], -1)
            ratio = tf.exp(tf.gather_nd(new, places) - tf.stop_gradient(tf.gather_nd(old, places)))
            clipped = tf.clip_by_value(ratio, 0.8, 1.2)
            gain = tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))
            entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(new) * new, -1))
            error = tf.reduce_mean(keras.losses.huber(goal[:, None], value[:, None]))
            moved = tf.reduce_mean(tf.reduce_sum(tf.exp(old) * (old - new), -1))
            if training:
                up, down = moved > 1e-3, moved < 1e-4
                weight = tf.where(
                    up, self.weight * 1.5, tf.where(down, self.weight / 1.5, self.weight)
                )
                self.weight.assign(tf.clip_by_value(weight, 0.5, 2.0))
            return error - gain - 0.01 * entropy + self.weight * moved, {"moved": moved}

    model = Proximal()
    model.compile(optimizer=keras.optimizers.Adam(0.01, global_clipnorm=0.5))
    targets = (chosen(3), drawn(seed=4), (chosen(4) == 0).astype("float32"))
    return model, fitted(drawn(5), targets)


@script(evaluates=False, predicts=False, gathers="TensorScatterUpdate")
def values_of_actions_replayed_with_priorities() -> Training:
    class Replay(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.target = mlp(3, 8, 2), mlp(3, 8, 2)
            self.target.trainable = False
            self.memory = self.add_weight((20, 8), "zeros", trainable=False, name="memory")
            self.weights_of = self.add_weight((20,), "zeros", trainable=False, name="priorities")
            self.steps = self.add_weight((), "zeros", dtype="int32", trainable=False, name="steps")
            self.generator = keras.random.SeedGenerator(1)

        def train_step(self, data: Any) -> Any:
            rows = tf.shape(data)[0]
            places = (self.steps * 7 + tf.range(rows)) % 20
            self.memory.assign(tf.tensor_scatter_nd_update(self.memory, places[:, None], data))
            highest = tf.maximum(tf.reduce_max(self.weights_of), 1.0)
            new = tf.tensor_scatter_nd_update(
                self.weights_of, places[:, None], tf.fill([rows], highest)
            )
            logits = tf.where(new > 0, tf.math.log(new + 1e-6), -1e9)[None]
            drawn_places = keras.random.categorical(logits, 6, seed=self.generator)[0]
            batch = tf.gather(tf.convert_to_tensor(self.memory), drawn_places)
            state, action, reward, after = batch[:, :3], batch[:, 3], batch[:, 4], batch[:, 5:]
            best = tf.argmax(self.net(after), -1)
            value = tf.gather(self.target(after), best, batch_dims=1)
            goal = tf.stop_gradient(tf.tanh(reward) + 0.9 * value)
            with tf.GradientTape() as tape:
                q = self.net(state)
                q = tf.reduce_sum(q * tf.one_hot(tf.cast(action > 0, tf.int32), 2), -1)
                error = goal - q
                own = tf.reduce_mean((self.net(data[:, :3])[:, 0] - data[:, 4]) ** 2)
                loss = tf.reduce_mean(keras.losses.huber(goal[:, None], q[:, None])) + 0.1 * own
            variables = self.net.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            self.weights_of.assign(
                tf.tensor_scatter_nd_max(0.9 * new, drawn_places[:, None], tf.abs(error) + 0.1)
            )
            self.steps.assign_add(1)
            is_time = self.steps % 3 == 0
            for old, now in zip(self.target.weights, self.net.weights, strict=True):
                old.assign(tf.where(is_time, now, old))
            return {"loss": loss, "own": own}

    model = Replay()
    model.compile(optimizer=keras.optimizers.RMSprop(0.003))
    return model, fitted(drawn(8))


@script()
def domains_told_apart_through_a_reversed_gradient() -> Training:
    @tf.custom_gradient
    def reversed_gradient(x: Any, strength: Any) -> Any:
        return tf.identity(x), lambda d: (-strength * d, tf.zeros_like(strength))

    class Domains(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.kinds, self.domain = mlp(4, 8, 6), mlp(6, 3), mlp(6, 4, 1)
            self.steps = self.add_weight((), "zeros", trainable=False, name="steps")

        def call(self, x: Any) -> Any:
            return self.kinds(self.features(x))

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, y = data
            source = tf.cast(x[:, 0] > 0, tf.float32)
            strength = 2 / (1 + tf.exp(-self.steps)) - 1
            features = self.features(x)
            kinds = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.kinds(features))
            kinds = tf.math.divide_no_nan(tf.reduce_sum(kinds * source), tf.reduce_sum(source))
            logits = self.domain(reversed_gradient(features, strength))[:, 0]
            apart = tf.nn.sigmoid_cross_entropy_with_logits(source, logits)
            return kinds + tf.reduce_mean(apart), {"domain": tf.reduce_mean(apart)}

        def after(self, data: Any) -> None:
            self.steps.assign_add(0.2)

    model = Domains()
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))
    return model, fitted(drawn(4), np.abs(chosen(3)))
