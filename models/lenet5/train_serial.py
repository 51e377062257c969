"""Train LeNet-5 on handwritten digits.

The network is that of Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied
to document recognition, Proceedings of the IEEE 86 (1998), with today's choices where they are
simpler: rectifiers instead of scaled tangents, a softmax instead of radial basis functions.
"""

import argparse

import keras
from keras import layers

from lenet5_data import IMAGE_SHAPE, NUM_CLASSES, make_datasets


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train LeNet-5 on handwritten digits.")
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step, of all ranks")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def build_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(IMAGE_SHAPE),
            layers.Conv2D(6, 5, activation="relu", name="c1"),
            layers.AveragePooling2D(2, name="s2"),
            layers.Conv2D(16, 5, activation="relu", name="c3"),
            layers.AveragePooling2D(2, name="s4"),
            layers.Conv2D(120, 5, activation="relu", name="c5"),
            layers.Flatten(),
            layers.Dense(84, activation="relu", name="f6"),
            layers.Dense(NUM_CLASSES, name="output"),
        ],
        name="lenet5",
    )


def main() -> None:
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    training_data, test_data = make_datasets(arguments.data, arguments.batch_size, arguments.seed)

    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(training_data, epochs=arguments.epochs)

    loss, accuracy = model.evaluate(test_data, verbose=0)
    print(f"test loss: {loss:.4f}")
    print(f"test accuracy: {accuracy:.2f}")


if __name__ == "__main__":
    main()
