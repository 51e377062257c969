"""Vision: classification, segmentation, metric learning, distillation, transformers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from model_catalogue.generative import Distiller
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, NUM_SAMPLES, adam, images, labels, numbers, shown

CROSSENTROPY = "sparse_categorical_crossentropy"


@example("vision", "convolutional classifier of digits, with dropout and validation split")
def digits_convnet(tnt: Any) -> Values:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model = tnt.Model(model)
    model.compile(adam(), "categorical_crossentropy", metrics=["accuracy"])
    y = keras.utils.to_categorical(labels(), 3)
    history = model.fit(images(), y, validation_split=0.25, **FIT)
    return shown(model, history=history, score=model.evaluate(images(), y, verbose=0))


@example("vision", "image classification from scratch: residual blocks with batch normalisation")
def residual_images(tnt: Any) -> Values:
    def normalised(x: Any) -> Any:
        normalization = layers.BatchNormalization(synchronized=True)  # changed
        return layers.ReLU()(normalization(x))

    inputs = keras.Input((8, 8, 1))
    x = normalised(
        layers.Conv2D(4, 3, padding="same", use_bias=False)(layers.Rescaling(2.0, -1.0)(inputs))
    )
    residual = x
    x = normalised(layers.SeparableConv2D(4, 3, padding="same", use_bias=False)(x))
    x = layers.GlobalAveragePooling2D()(layers.add([x, residual]))
    model = keras.Model(inputs, layers.Dense(1)(x))
    model = tnt.Model(model)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=[keras.metrics.BinaryAccuracy()])
    history = model.fit(images(), labels(2).astype("float32")[:, None], **FIT)
    return shown(model, history=history, predictions=model.predict(images(), verbose=0))


@example("vision", "augmentation by random layers inside of the model")
def augmented_images(tnt: Any) -> Values:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.RandomFlip("horizontal"),
            layers.RandomRotation(0.1),
            layers.RandomZoom(0.1),
            layers.Conv2D(4, 3, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model = tnt.Model(model)
    model.compile(adam(), CROSSENTROPY)
    return shown(model, history=model.fit(images(), labels(), **FIT))


@example(
    "vision", "transfer learning, then fine-tuning of the base but for its batch normalisation"
)
def fine_tuning(tnt: Any) -> Values:
    base = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU()]
    )
    base.trainable = False
    inputs = keras.Input((8, 8, 1))
    x = layers.GlobalAveragePooling2D()(base(inputs, training=False))
    model = keras.Model(inputs, layers.Dropout(0.2)(layers.Dense(3)(x)))
    model = tnt.Model(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(adam(), loss, metrics=["accuracy"])
    head = model.fit(images(), labels(), **FIT)
    base.trainable = True
    for layer in base.layers:
        layer.trainable = not isinstance(layer, layers.BatchNormalization)
    model.compile(keras.optimizers.SGD(1e-2), loss, metrics=["accuracy"])
    history = model.fit(images(), labels(), **FIT)
    return shown(model, history=history, head=head.history["loss"])


@example("vision", "segmentation of images by a U-Net, one label for each pixel")
def segmentation(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    fine = layers.Conv2D(3, 3, padding="same", activation="relu")(inputs)
    coarse = layers.Conv2D(4, 3, padding="same", activation="relu")(layers.MaxPooling2D()(fine))
    x = layers.concatenate([fine, layers.UpSampling2D()(coarse)])
    model = keras.Model(inputs, layers.Conv2D(2, 3, padding="same", activation="softmax")(x))
    model = tnt.Model(model)
    metrics = [keras.metrics.MeanIoU(2, sparse_y_pred=False, name="iou")]
    model.compile(adam(), CROSSENTROPY, metrics=metrics)
    masks = (images() > 0.6).astype("int32")
    history = model.fit(images(), masks, **FIT)
    return shown(model, history=history, predictions=model.predict(images(), verbose=0))


@example("vision", "segmentation with the Dice loss of the whole batch")
def dice_segmentation(tnt: Any) -> Values:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.Dice())
    history = model.fit(images(), (images() > 0.6).astype("float32"), **FIT)
    return shown(model, history=history)


@example("vision", "denoising autoencoder of images")
def denoising_autoencoder(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    x = layers.MaxPooling2D(2)(layers.Conv2D(4, 3, padding="same", activation="relu")(inputs))
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(x)
    model = keras.Model(inputs, layers.Conv2D(1, 3, padding="same", activation="sigmoid")(x))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy")
    noisy = np.clip(images() + 0.4 * numbers(8, 8, 1), 0, 1)
    history = model.fit(noisy, images(), **FIT, validation_data=(noisy[:5], images()[:5]))
    return shown(model, history=history, clean=model.predict(noisy, verbose=0))


@example("vision", "Siamese network with a triplet loss, in a train_step")
def siamese_triplets(tnt: Any) -> Values:
    class Siamese(keras.Model):
        def __init__(self, tower: Any) -> None:
            super().__init__()
            self.tower = tower
            self.tracker = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.tracker]

        def call(self, inputs: Any) -> Any:
            return [self.tower(each) for each in inputs]

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                anchor, positive, negative = self(data)
                near = tf.reduce_sum(tf.square(anchor - positive), -1)
                far = tf.reduce_sum(tf.square(anchor - negative), -1)
                loss = tf.reduce_mean(tf.maximum(near - far + 0.5, 0.0))
            gradients = tape.gradient(loss, self.tower.trainable_weights)
            self.optimizer.apply_gradients(
                zip(gradients, self.tower.trainable_weights, strict=True)
            )
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

    tower = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(3, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(4, use_bias=False),  # differences of embeddings would not depend on it
        ]
    )
    x = images()
    triplets = tf.data.Dataset.from_tensor_slices((x, x[::-1], np.roll(x, 3, axis=0)))
    model = tnt.Model(Siamese(tower))
    model.compile(adam())
    history = model.fit(triplets.batch(BATCH_SIZE), epochs=EPOCHS, verbose=0)
    return shown(tower, history=history)


@example("vision", "contrastive learning of two views (SimCLR)")
def contrastive_views(tnt: Any) -> Values:
    def contrast(first: Any, second: Any) -> Any:
        first, second = (tf.math.l2_normalize(each, axis=1) for each in (first, second))
        similarities = tf.matmul(first, second, transpose_b=True) / 0.5
        partners = tf.range(tf.shape(first)[0])
        return keras.losses.sparse_categorical_crossentropy(
            tf.concat([partners, partners], 0),
            tf.concat([similarities, tf.transpose(similarities)], 0),
            from_logits=True,
        )

    class Contrastive(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.Sequential([layers.Flatten(), layers.Dense(6, "tanh")])
            self.head = layers.Dense(4)
            self.tracker = keras.metrics.Mean(name="loss")

        def call(self, x: Any) -> Any:
            return self.head(self.encoder(x))

        def train_step(self, data: Any) -> dict[str, Any]:
            left, right = data
            with tf.GradientTape() as tape:
                left, right = self(left), self(right)
                loss = tf.reduce_mean(contrast(left, right))
            weights = self.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

    model = tnt.Model(Contrastive())
    model.compile(adam())
    history = model.fit(images(), images()[:, ::-1], **FIT)
    return shown(model, history=history)


@example("vision", "metric learning with the Circle loss, which compares all pairs of a batch")
def metric_learning(tnt: Any) -> Values:
    unit = layers.UnitNormalization()
    model = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(4), unit])
    model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(1e-3), keras.losses.Circle(gamma=2.0))
    history = model.fit(images(), labels(), **FIT)
    return shown(model, history=history, embeddings=model.predict(images(), verbose=0))


@example("vision", "knowledge distillation from a trained teacher")
def distillation(tnt: Any) -> Values:
    def network(width: int) -> Any:
        first = layers.Dense(width, "tanh")
        return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), first, layers.Dense(3)])

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    teacher = tnt.Model(network(8))
    teacher.compile(adam(), loss, metrics=["accuracy"])
    teacher.fit(images(), labels(), **FIT)
    teacher.trainable = False
    student = network(4)
    model = tnt.Model(Distiller(teacher, student))
    model.compile(adam(), loss, metrics=["accuracy"])
    history = model.fit(images(), labels(), **FIT)
    return shown(student, history=history)


@example("vision", "MixUp of two shuffled datasets")
def mixed_images(tnt: Any) -> Values:
    def mix(first: Any, second: Any) -> Any:
        (images_one, labels_one), (images_two, labels_two) = first, second
        rate = 0.2 + 0.6 * images_one[0, 0, 0]
        return (
            rate * images_one + (1 - rate) * images_two,
            rate * labels_one + (1 - rate) * labels_two,
        )

    y = keras.utils.to_categorical(labels(), 3).astype("float32")
    samples = tf.data.Dataset.from_tensor_slices((images(), y))
    pairs = [samples.shuffle(NUM_SAMPLES, seed=seed) for seed in (1, 2)]
    dataset = tf.data.Dataset.zip(tuple(pairs)).map(mix).batch(BATCH_SIZE)
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(3, "softmax")]
    )
    model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=["accuracy"])
    return shown(model, history=model.fit(dataset, epochs=EPOCHS, verbose=0))


class Patches(layers.Layer):
    """Cuts images of 8 x 8 into patches, and adds an embedding of their positions."""

    def build(self, shape: Any) -> None:
        self.project = layers.Dense(4)
        self.position = layers.Embedding(4, 4)

    def call(self, x: Any) -> Any:
        patches = keras.ops.image.extract_patches(x, 4)
        patches = keras.ops.reshape(patches, (-1, 4, 16))
        return self.project(patches) + self.position(keras.ops.arange(4))


@example("vision", "Vision Transformer: patches, positions, attention")
def vision_transformer(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    x = Patches()(inputs)
    normalised = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 2)(normalised, normalised)])
    x = layers.Add()([x, layers.Dense(4, "gelu")(layers.LayerNormalization()(x))])
    outputs = layers.Dense(3)(layers.Dropout(0.3)(layers.Flatten()(x)))
    model = keras.Model(inputs, outputs)
    model = tnt.Model(model)
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=1e-3, epsilon=1e-3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    top = keras.metrics.SparseTopKCategoricalAccuracy(2, name="top 2")
    model.compile(optimizer, loss, metrics=["accuracy", top])
    return shown(model, history=model.fit(images(), labels(), **FIT))


@example("vision", "MLP-Mixer: dense layers over patches and over channels")
def mlp_mixer(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    x = layers.Reshape((4, 4))(layers.Conv2D(4, 4, strides=4)(inputs))
    across = layers.Permute((2, 1))(layers.LayerNormalization()(x))
    across = layers.Dense(4)(layers.Dense(6, "gelu")(across))
    x = layers.add([x, layers.Permute((2, 1))(across)])
    x = layers.add([x, layers.Dense(4)(layers.Dense(6, "gelu")(layers.LayerNormalization()(x)))])
    model = keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))
    model = tnt.Model(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(0.01, epsilon=1e-3), loss, metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
    reduce = keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=1)
    options = {"validation_split": 0.25, "callbacks": [stop, reduce]}
    return shown(model, history=model.fit(images(), labels(), **FIT, **options))


@example("vision", "attention-based multiple instance learning: bags of images")
def bags_of_images(tnt: Any) -> Values:
    class BagAttention(layers.Layer):
        def build(self, shape: Any) -> None:
            self.hidden = self.add_weight(shape=(shape[-1], 3), initializer="glorot_uniform")
            self.score = self.add_weight(shape=(3, 1), initializer="glorot_uniform")

        def call(self, instances: Any) -> Any:
            hidden = keras.ops.tanh(keras.ops.matmul(instances, self.hidden))
            return keras.ops.softmax(keras.ops.matmul(hidden, self.score), axis=1)

    bags = keras.Input((3, 16))
    instances = layers.Dense(5, "relu")(bags)
    weights = BagAttention()(instances)
    pooled = layers.Lambda(lambda both: keras.ops.sum(both[0] * both[1], axis=1))
    model = keras.Model(bags, layers.Dense(2, "softmax")(pooled([weights, instances])))
    model = tnt.Model(model)
    model.compile(adam(), CROSSENTROPY, metrics=["accuracy"])
    history = model.fit(numbers(3, 16), labels(2), class_weight={0: 0.7, 1: 1.6}, **FIT)
    return shown(model, history=history, predictions=model.predict(numbers(3, 16), verbose=0))


@example("vision", "Grad-CAM: gradients of a trained classifier with respect to its activations")
def class_activations(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    features = layers.Conv2D(4, 3, activation="relu", name="features")(inputs)
    outputs = layers.Dense(3)(layers.GlobalAveragePooling2D()(features))
    model = keras.Model(inputs, outputs)
    model = tnt.Model(model)
    model.compile(adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(images(), labels(), **FIT)
    inner = keras.Model(model.inputs, [model.get_layer("features").output, model.output])
    with tf.GradientTape() as tape:
        activations, predictions = inner(images()[:2])
        best = tf.reduce_max(predictions, axis=1)
    channels = tf.reduce_mean(tape.gradient(best, activations), axis=(1, 2), keepdims=True)
    heatmaps = tf.nn.relu(tf.reduce_sum(channels * activations, axis=-1))
    return shown(model, history=history, heatmaps=heatmaps)


@example("vision", "reading captchas: convolutions, a recurrent layer and the CTC loss")
def captchas(tnt: Any) -> Values:
    inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(3, 3, padding="same", activation="relu")(inputs)
    x = layers.Reshape((8, 24))(layers.Permute((2, 1, 3))(x))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    model = keras.Model(inputs, layers.Dense(5)(x))
    model = tnt.Model(model)
    model.compile(adam(), keras.losses.CTC())
    y = np.random.default_rng(3).integers(1, 5, (NUM_SAMPLES, 3)).astype("int32")
    history = model.fit(images(), y, **FIT)
    outputs = model.predict(images(), verbose=0)
    best = keras.ops.argmax(outputs, axis=-1)
    return shown(model, history=history, read=best)
