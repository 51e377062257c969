"""Train in a loop of your own: raise the learning rate, then lower it, and stop when it is time."""

import csv
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

import tarantella as tnt

keras.utils.set_random_seed(1)


def make_datasets(batch_size):
    """Digits for training, shuffled anew in each epoch, and 297 others."""
    digits = load_digits()
    pictures = digits.images[..., np.newaxis].astype("float32") / 16
    data = tf.data.Dataset.from_tensor_slices((pictures, digits.target))
    data = data.shuffle(1797, seed=1, reshuffle_each_iteration=False)
    training = data.skip(297).shuffle(1500, seed=2).batch(batch_size)
    return training, data.take(297).batch(batch_size)


training, validation = make_datasets(batch_size=64)
training = tnt.data.distribute(training)
validation = tnt.data.distribute(validation)

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(16, 3, activation="gelu"),
        layers.Conv2D(32, 3, activation="gelu"),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(10),
    ]
)
optimizer = keras.optimizers.SGD(momentum=0.9)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@tnt.function
def train_step(pictures, labels, learning_rate):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(pictures, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    norm = tf.linalg.global_norm(gradients)
    optimizer.learning_rate = learning_rate
    optimizer.apply(gradients, model.trainable_variables)
    return loss, norm


@tnt.function
def test_step(pictures, labels):
    accuracy.update_state(labels, model(pictures, training=False))


rows, best, step = [], 0.0, 0
for epoch in range(12):
    losses, norms = [], []
    for pictures, labels in training:
        learning_rate = 0.05 * min(1.0, (step + 1) / 50) * 0.8**epoch
        loss, norm = train_step(pictures, labels, tf.constant(learning_rate))
        losses.append(float(loss))
        norms.append(float(norm))
        step += 1

    accuracy.reset_state()
    for pictures, labels in validation:
        test_step(pictures, labels)
    reached = float(accuracy.result())
    rows.append([epoch, np.mean(losses), max(norms), reached])
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}, accuracy {reached:.4f}")
    if reached <= best:
        break
    best = reached

if tnt.is_master_rank():
    with open(sys.argv[1], "w") as file:
        csv.writer(file).writerows([["epoch", "loss", "largest_gradient", "accuracy"], *rows])
print(f"stopped in epoch {epoch}, loss {np.mean(losses):.4f}, best accuracy {best:.4f}")
