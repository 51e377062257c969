"""Learn features of digits without labels, as SimCLR does, and see how well they tell digits apart.

T. Chen, S. Kornblith, M. Norouzi, G. Hinton: A Simple Framework for Contrastive Learning of Visual
Representations, https://arxiv.org/abs/2002.05709.
"""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

import tarantella as tnt

keras.utils.set_random_seed(1)


def nt_xent(first, second, temperature=0.2):
    """Cross entropy of finding the other view of a picture among all views of the batch."""
    views = tf.math.l2_normalize(tf.concat([first, second], axis=0), axis=1)
    similarities = tf.matmul(views, views, transpose_b=True) / temperature
    similarities -= 1e9 * tf.eye(tf.shape(views)[0])  # a view is not its own partner
    partners = tf.roll(tf.range(tf.shape(views)[0]), tf.shape(first)[0], axis=0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(partners, similarities)
    return tf.reduce_mean(losses)


class SimCLR(keras.Model):
    def __init__(self):
        super().__init__()
        self.augment = keras.Sequential(
            [
                keras.Input((12, 12, 1)),
                layers.RandomTranslation(0.3, 0.3, fill_mode="constant"),
                layers.RandomRotation(0.03, fill_mode="constant"),
                layers.GaussianNoise(0.1),
            ]
        )
        self.encoder = keras.Sequential(
            [
                keras.Input((12, 12, 1)),
                layers.Conv2D(16, 3, padding="same", activation="gelu"),
                layers.Conv2D(32, 3, strides=2, padding="same", activation="gelu"),
                layers.Conv2D(64, 3, padding="same", activation="gelu"),
                layers.GlobalMaxPooling2D(),
            ]
        )
        self.project = keras.Sequential([keras.Input((64,)), layers.Dense(32)])
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, pictures, training=False):
        return self.encoder(pictures, training=training)

    def view(self, pictures):
        return self.project(self(self.augment(pictures, training=True), training=True))

    def train_step(self, pictures):
        with tf.GradientTape() as tape:
            loss = nt_xent(self.view(pictures), self.view(pictures))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def load_pictures():
    """Digits at random places of pictures (1500, 12, 12, 1), and their labels."""
    digits = load_digits()
    pictures = np.zeros((1500, 12, 12, 1), "float32")
    for picture, digit, (top, left) in zip(
        pictures, digits.images, np.random.randint(5, size=(1500, 2)), strict=False
    ):
        picture[top : top + 8, left : left + 8, 0] = digit / 16
    return pictures, digits.target[:1500]


def accuracy_of_neighbours(features, labels):
    """The share of pictures whose nearest neighbour shows the same digit."""
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarities = features @ features.T - 2 * np.eye(len(features))
    return (labels[similarities.argmax(axis=1)] == labels).mean()


pictures, labels = load_pictures()

model = SimCLR()
model = tnt.Model(model)
model.compile(optimizer=keras.optimizers.Adam(1e-3))
before = accuracy_of_neighbours(model.predict(pictures, verbose=0), labels)
history = model.fit(
    pictures,
    batch_size=250,
    epochs=10,
    callbacks=[keras.callbacks.CSVLogger(sys.argv[1])],
    verbose=2,
)
tnt.explain(model)

after = accuracy_of_neighbours(model.predict(pictures, verbose=0), labels)
loss = history.history["loss"][-1]
print(f"loss {loss:.4f}, nearest neighbours before {before:.4f}, after {after:.4f}")
