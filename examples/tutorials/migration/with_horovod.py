"""Train a classifier of digits with Horovod."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras
from tensorflow.keras import layers

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
keras.utils.set_random_seed(1)

digits = load_digits()
data = tf.data.Dataset.from_tensor_slices((digits.data / 16, digits.target))
training = data.take(1500).shard(hvd.size(), hvd.rank())
training = training.shuffle(1500 // hvd.size(), seed=1).batch(60 // hvd.size())
validation = data.skip(1500).batch(99)

model = keras.Sequential(
    [keras.Input((64,)), layers.Dense(64, activation="gelu"), layers.Dense(10)]
)
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
model.compile(
    optimizer=hvd.DistributedOptimizer(optimizer),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("logs/digits.keras"))
model.fit(training, epochs=4, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)

loss, accuracy = model.evaluate(validation, verbose=0)
if hvd.rank() == 0:
    print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
