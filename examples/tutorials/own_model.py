"""Train a model of your own: two classes of tumours, told from thirty measurements each."""

import sys

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_breast_cancer

import tarantella as tnt

keras.utils.set_random_seed(1)


class Residual(layers.Layer):
    """Adds to its input what two dense layers make of it."""

    def __init__(self, width):
        super().__init__()
        self.first = layers.Dense(width, activation="relu")
        self.drop = layers.Dropout(0.2)
        self.second = layers.Dense(width)

    def call(self, inputs, training=False):
        return inputs + self.second(self.drop(self.first(inputs), training=training))


class TumourModel(keras.Model):
    """The logit of the probability that a tumour is malignant."""

    def __init__(self):
        super().__init__()
        self.widen = layers.Dense(32)
        self.blocks = [Residual(32), Residual(32)]
        self.logit = layers.Dense(1)

    def call(self, inputs, training=False):
        hidden = self.widen(inputs)
        for block in self.blocks:
            hidden = block(hidden, training=training)
        return self.logit(hidden)


class Sensitivity(keras.metrics.Metric):
    """The share of malignant tumours that are found."""

    def __init__(self):
        super().__init__(name="sensitivity")
        self.found = self.add_weight(initializer="zeros", name="found")
        self.malignant = self.add_weight(initializer="zeros", name="malignant")

    def update_state(self, y_true, y_pred, sample_weight=None):
        malignant = keras.ops.cast(y_true, "float32")
        found = malignant * keras.ops.cast(y_pred > 0, "float32")
        self.found.assign_add(keras.ops.sum(found))
        self.malignant.assign_add(keras.ops.sum(malignant))

    def result(self):
        return keras.ops.divide_no_nan(self.found, self.malignant)


data = load_breast_cancer()
x = ((data.data - data.data.mean(0)) / data.data.std(0)).astype("float32")
y = (data.target == 0).astype("float32")[:, np.newaxis]
order = np.random.permutation(len(x))
training, validation = order[:455], order[455:]

model = TumourModel()
model = tnt.Model(model)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[Sensitivity()],
)
history = model.fit(
    x[training],
    y[training],
    batch_size=50,
    epochs=30,
    validation_data=(x[validation], y[validation]),
    callbacks=[
        keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("logs/best.keras", save_best_only=True),
        keras.callbacks.CSVLogger(sys.argv[1]),
    ],
    verbose=2,
)
loss, sensitivity = model.evaluate(x[validation], y[validation], verbose=0)
epochs = len(history.history["loss"])
print(f"{epochs} epochs, validation loss {loss:.4f}, sensitivity {sensitivity:.4f}")
