"""Train a classifier of digits with MultiWorkerMirroredStrategy."""

import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras
from tensorflow.keras import layers

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG, different on each host
is_chief = strategy.cluster_resolver.task_id in (None, 0)
keras.utils.set_random_seed(1)

digits = load_digits()
data = tf.data.Dataset.from_tensor_slices((digits.data / 16, digits.target))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
training = data.take(1500).shuffle(1500, seed=1).batch(60).with_options(options)
validation = data.skip(1500).batch(99).with_options(options)

with strategy.scope():
    model = keras.Sequential(
        [keras.Input((64,)), layers.Dense(64, activation="gelu"), layers.Dense(10)]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

path = "logs/digits.keras" if is_chief else f"/tmp/worker{strategy.cluster_resolver.task_id}.keras"
callbacks = [keras.callbacks.ModelCheckpoint(path)]
model.fit(training, epochs=4, callbacks=callbacks, verbose=2)

loss, accuracy = model.evaluate(validation, verbose=0)
print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
