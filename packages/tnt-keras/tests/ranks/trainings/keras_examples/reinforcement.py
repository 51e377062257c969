"""Reinforcement learning: what is trained between the moves of an agent."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, adam, shown


class Corridor:
    """A walk on five places, which ends with a reward at the right end; each move costs."""

    def reset(self) -> np.ndarray:
        self.place = 1
        return self._state()

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        self.place = max(0, min(4, self.place + (1 if action else -1)))
        return self._state(), float(self.place == 4) - 0.1, self.place == 4

    def _state(self) -> np.ndarray:
        return np.eye(5, dtype="float32")[self.place]


@example("reinforcement learning", "deep Q-learning: replay memory, train_on_batch, target network")
def deep_q_learning(tnt: Any) -> Values:
    def network() -> Any:
        first = layers.Dense(6, activation="relu")
        return keras.Sequential([keras.Input((5,)), first, layers.Dense(2)])

    generator = np.random.default_rng(0)
    target = network()
    model = tnt.Model(network())
    model.compile(adam(), keras.losses.Huber())
    target.set_weights(model.get_weights())
    environment, memory, losses = Corridor(), [], []
    state = environment.reset()
    for move in range(30):
        values = model.predict_on_batch(state[None])
        action = int(np.argmax(values)) if generator.uniform() > 0.5 else generator.integers(2)
        following, reward, is_over = environment.step(action)
        memory.append((state, action, reward, following, is_over))
        state = environment.reset() if is_over else following
        if move % 5 == 4:
            chosen = [memory[index] for index in generator.integers(0, len(memory), 2 + move // 5)]
            states, actions, rewards, nexts, overs = (
                np.array(each) for each in zip(*chosen, strict=True)
            )
            best = np.max(target(nexts), axis=1) * (1 - overs)
            goals = model.predict_on_batch(states)
            goals[np.arange(len(states)), actions] = rewards + 0.9 * best
            losses.append(model.train_on_batch(states, goals))
        if move % 10 == 9:
            target.set_weights(model.get_weights())
    return shown(model, losses=losses)


@example("reinforcement learning", "actor and critic, updated after each episode by a tape")
def actor_critic(tnt: Any) -> Values:
    inputs = keras.Input((5,))
    common = layers.Dense(6, activation="relu")(inputs)
    policy, value = layers.Dense(2, activation="softmax")(common), layers.Dense(1)(common)
    model = keras.Model(inputs, [policy, value])
    optimizer, generator = adam(), np.random.default_rng(1)

    @tnt.function  # changed
    def learn(states: Any, actions: Any, returns: Any) -> Any:
        with tf.GradientTape() as tape:
            policies, values = model(states)
            advantages = returns - values[:, 0]
            chosen = tf.reduce_sum(policies * tf.one_hot(actions, 2), axis=1)
            actor = -tf.math.log(chosen) * tf.stop_gradient(advantages)
            loss = tf.reduce_mean(actor + 0.5 * tf.square(advantages))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    environment, losses, lengths = Corridor(), [], []
    for _ in range(3):
        state, is_over, history = environment.reset(), False, []
        while not is_over and len(history) < 12:
            probabilities = np.asarray(model(state[None])[0])[0].astype("float64")
            action = generator.choice(2, p=probabilities / probabilities.sum())
            following, reward, is_over = environment.step(action)
            history.append((state, action, reward))
            state = following
        states, actions, rewards = (np.array(each) for each in zip(*history, strict=True))
        discounts = 0.8 ** np.arange(len(rewards))
        returns = np.cumsum((rewards * discounts)[::-1])[::-1] / discounts
        returns = returns.astype("float32")
        losses.append(float(learn(states, actions.astype("int32"), returns)))
        lengths.append(len(history))
    return shown(model, losses=losses, lengths=lengths)


@example("reinforcement learning", "policy optimisation with clipped ratios (PPO), on a buffer")
def clipped_policy(tnt: Any) -> Values:
    actor = keras.Sequential([keras.Input((5,)), layers.Dense(6, "tanh"), layers.Dense(2)])
    optimizer, generator = adam(), np.random.default_rng(2)

    @tnt.function  # changed
    def learn(states: Any, actions: Any, before: Any, advantages: Any) -> Any:
        with tf.GradientTape() as tape:
            now = tf.reduce_sum(tf.nn.log_softmax(actor(states)) * tf.one_hot(actions, 2), axis=1)
            ratio = tf.exp(now - before)
            clipped = tf.clip_by_value(ratio, 0.8, 1.2) * advantages
            loss = -tf.reduce_mean(tf.minimum(ratio * advantages, clipped))
        weights = actor.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    states = np.eye(5, dtype="float32")[generator.integers(0, 5, 16)]
    actions = generator.integers(0, 2, 16).astype("int32")
    advantages = generator.normal(size=16).astype("float32")
    before = np.asarray(tf.nn.log_softmax(actor(states)))[np.arange(16), actions]
    buffer = tf.data.Dataset.from_tensor_slices((states, actions, before, advantages))
    buffer = tnt.data.distribute(buffer.batch(BATCH_SIZE))  # changed
    losses = [float(learn(*batch)) for _ in range(2) for batch in buffer]
    return shown(actor, losses=losses)
