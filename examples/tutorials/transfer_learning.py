"""Train a new head on a network that has seen other pictures, then fine-tune its upper blocks."""

import sys

import keras
import numpy as np

import tarantella as tnt
from pretrained_base import batch_norms_of, build_base, load_pictures, with_head

log, weights = sys.argv[1:]
keras.utils.set_random_seed(1)

pictures, labels = load_pictures([5, 6, 7, 8, 9])
order = np.random.permutation(len(labels))
training, validation = order[:300], order[300:]

if weights == "imagenet":
    with tnt.master_first():  # one rank downloads, the others find the file
        base = build_base("imagenet")
else:
    base = build_base()
    base.load_weights(weights)


def train(learning_rate, first_epoch, last_epoch):
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        pictures[training],
        labels[training],
        batch_size=32,
        initial_epoch=first_epoch,
        epochs=last_epoch,
        validation_data=(pictures[validation], labels[validation]),
        callbacks=[keras.callbacks.CSVLogger(log, append=first_epoch > 0)],
        verbose=2,
    )


model = tnt.Model(with_head(base, 5))

base.trainable = False
train(learning_rate=3e-2, first_epoch=0, last_epoch=8)

base.trainable = True
for layer in [*base.layers[:9], *batch_norms_of(base)]:
    layer.trainable = False
train(learning_rate=1e-3, first_epoch=8, last_epoch=16)

loss, accuracy = model.evaluate(pictures[validation], labels[validation], verbose=0)
print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
