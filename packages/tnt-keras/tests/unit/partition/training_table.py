"""Trainings of all losses, reductions, masks, weights, optimizers and splits of the batch."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from packaging.version import Version
from unseen.case import Case, Training

EPOCHS = 2

WIDTH, LENGTH = 3, 5
"""Values of a sample, or of each of its positions; positions."""

SPLITS = {
    "even": (12, 6),
    "uneven": (14, 7),
    "short last batch": (15, 6),
    "fewer samples than replicas": (13, 6),
}
"""Numbers of samples and their batch sizes."""

REDUCTIONS = ("sum_over_batch_size", "sum", "mean", "mean_with_sample_weight", "none")

VALUES = ("of a sample", "of positions", "of positions without padding")
"""What a loss has values of: `padding` is masked by `Embedding(mask_zero=True)`."""

WEIGHTS = ("none", "sample_weight", "class_weight", "temporal")


@dataclasses.dataclass(frozen=True)
class Loss:
    """How a loss of Keras is trained.

    Attributes:
        make: From the reduction.
        targets: Name of a kind of `_targets`.
        activation: Of the last layer.
        metrics: One that does not count sample weights, and one that does.
        values: The only ones of `VALUES` that it has, if it cannot have all.
    """

    make: Callable[[str], Any]
    targets: str
    activation: str | None = None
    metrics: tuple[str, ...] = ("mae", "mse")
    values: str | None = None


def _of_class(name: str, **arguments: Any) -> Callable[[str], Any]:
    return lambda reduction: getattr(keras.losses, name)(reduction=reduction, **arguments)


def _losses() -> dict[str, Loss]:
    one_hot = {"targets": "one_hot", "activation": "softmax"}
    one_hot_metrics = {**one_hot, "metrics": ("categorical_accuracy", "mse")}
    bits = {"targets": "bits", "activation": "sigmoid", "metrics": ("binary_accuracy", "mse")}
    classes = {"targets": "classes", "metrics": ("sparse_categorical_accuracy",) * 2}
    signs = {"targets": "signs", "activation": "tanh"}
    positive = {"targets": "positive", "activation": "softplus"}
    return {
        "MeanSquaredError": Loss(_of_class("MeanSquaredError"), "numbers"),
        "MeanAbsoluteError": Loss(_of_class("MeanAbsoluteError"), "numbers"),
        "MeanAbsolutePercentageError": Loss(_of_class("MeanAbsolutePercentageError"), **positive),
        "MeanSquaredLogarithmicError": Loss(_of_class("MeanSquaredLogarithmicError"), **positive),
        "CosineSimilarity": Loss(_of_class("CosineSimilarity"), "numbers"),
        "Huber": Loss(_of_class("Huber", delta=0.5), "numbers"),
        "LogCosh": Loss(_of_class("LogCosh"), "numbers"),
        "Poisson": Loss(_of_class("Poisson"), **positive),
        "KLDivergence": Loss(_of_class("KLDivergence"), **one_hot),
        "Hinge": Loss(_of_class("Hinge"), **signs),
        "SquaredHinge": Loss(_of_class("SquaredHinge"), **signs),
        "CategoricalHinge": Loss(_of_class("CategoricalHinge"), **one_hot_metrics),
        "BinaryCrossentropy": Loss(_of_class("BinaryCrossentropy", label_smoothing=0.1), **bits),
        "BinaryFocalCrossentropy": Loss(
            _of_class("BinaryFocalCrossentropy", apply_class_balancing=True), **bits
        ),
        "CategoricalCrossentropy": Loss(_of_class("CategoricalCrossentropy"), **one_hot_metrics),
        "CategoricalFocalCrossentropy": Loss(
            _of_class("CategoricalFocalCrossentropy"), **one_hot_metrics
        ),
        "CategoricalGeneralizedCrossEntropy": Loss(
            _of_class("CategoricalGeneralizedCrossEntropy"), **classes, activation="softmax"
        ),
        "SparseCategoricalCrossentropy": Loss(
            _of_class("SparseCategoricalCrossentropy", from_logits=True), **classes
        ),
        "SparseCategoricalCrossentropy(ignore_class)": Loss(
            _of_class("SparseCategoricalCrossentropy", ignore_class=1),
            **classes,
            activation="softmax",
        ),
        "CTC": Loss(_of_class("CTC"), "texts", metrics=(), values="of positions"),
        "Dice": Loss(_of_class("Dice", axis=(1,)), **bits, values="of a sample"),
        "Tversky": Loss(
            _of_class("Tversky", axis=(1,), alpha=0.3, beta=0.7), **bits, values="of a sample"
        ),
    }


FAILING = {"Muon"} if Version(keras.__version__) < Version("3.13") else set()
"""What plain Keras has, but cannot train with."""


def _of_this_keras(module: Any, table: dict[str, Any]) -> dict[str, Any]:
    """Leave out what older releases of Keras lack or cannot do."""
    return {
        name: made
        for name, made in table.items()
        if hasattr(module, name.partition("(")[0]) and name not in FAILING
    }


LOSSES: dict[str, Loss] = _of_this_keras(keras.losses, _losses())

# A normalised step divides by the gradient's own size. With a large epsilon it is a smooth function
# of the gradient, so that rounding of small gradients does not become large steps.
SMOOTH = {"epsilon": 1e-2}


def _multi_optimizer() -> Any:
    of_kernels = keras.optimizers.Adam(0.01, **SMOOTH)
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.05), {".*kernel": of_kernels})
    )


_ALL_OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.01, amsgrad=True, **SMOOTH),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, **SMOOTH),
    "Adamax": lambda: keras.optimizers.Adamax(0.01, **SMOOTH),
    "Nadam": lambda: keras.optimizers.Nadam(0.01, **SMOOTH),
    "Adadelta": lambda: keras.optimizers.Adadelta(1.0, **SMOOTH),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.05, **SMOOTH),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.01, epsilon_1=1e-2),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.01, centered=True, momentum=0.5, **SMOOTH),
    "Ftrl": lambda: keras.optimizers.Ftrl(
        0.05, l1_regularization_strength=1e-3, l2_shrinkage_regularization_strength=1e-2
    ),
    "Lamb": lambda: keras.optimizers.Lamb(0.01, **SMOOTH),
    "Lion": lambda: keras.optimizers.Lion(0.005),
    "Muon": lambda: keras.optimizers.Muon(0.01, **SMOOTH),
    "ScheduleFreeAdamW": lambda: keras.optimizers.ScheduleFreeAdamW(0.01, warmup_steps=3, **SMOOTH),
    "MultiOptimizer": _multi_optimizer,
    "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05, momentum=0.9), initial_scale=2.0**10, dynamic_growth_steps=2
    ),
    "SGD(accumulation)": lambda: keras.optimizers.SGD(0.05, gradient_accumulation_steps=2),
    "SGD(clipping, average)": lambda: keras.optimizers.SGD(
        0.1, global_clipnorm=0.5, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2
    ),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = _of_this_keras(keras.optimizers, _ALL_OPTIMIZERS)


@dataclasses.dataclass(frozen=True)
class TableRow:
    """One training: a name out of each of the tables above."""

    loss: str
    values: str
    weights: str
    reduction: str
    optimizer: str
    split: str

    def case(self) -> Case:
        """Return the training, of a name for this row alone."""
        name = ", ".join(dataclasses.astuple(self))
        return Case(name, functools.partial(_make, self))


def _is_possible(loss: Loss, values: str, weights: str) -> bool:
    """Return whether Keras can train with these values.

    A weight of each position needs losses of positions, and `class_weight` those of samples.
    """
    if loss.values:
        return values == loss.values and weights in ("none", "sample_weight")
    if weights == "temporal":
        return values != "of a sample"
    return weights != "class_weight" or values == "of a sample"


def table() -> list[TableRow]:
    """Return rows with each loss in each reduction, in which all others come in turns."""
    rows = []
    for index, (name, reduction) in enumerate(itertools.product(LOSSES, REDUCTIONS)):
        pairs = [
            pair for pair in itertools.product(VALUES, WEIGHTS) if _is_possible(LOSSES[name], *pair)
        ]
        values, weights = pairs[(index + index // len(OPTIMIZERS)) % len(pairs)]
        optimizer = [*OPTIMIZERS][index % len(OPTIMIZERS)]
        split = [*SPLITS][index % len(SPLITS)]
        rows.append(TableRow(name, values, weights, reduction, optimizer, split))
    return rows


def _make(row: TableRow) -> Training:
    keras.utils.set_random_seed(5)
    loss = LOSSES[row.loss]
    model = _model(loss, row)
    plain, weighted = loss.metrics[:1], loss.metrics[1:]
    model.compile(
        OPTIMIZERS[row.optimizer](),
        loss.make(row.reduction),
        metrics=[*plain],
        weighted_metrics=[*weighted],
    )
    model.optimizer.build(model.trainable_variables)
    x, y, sample_weight = _samples(row)
    _, batch_size = SPLITS[row.split]
    elements = (x, y) if sample_weight is None else (x, y, sample_weight)
    dataset = tf.data.Dataset.from_tensor_slices(elements).batch(batch_size)
    class_weight = {0: 0.2, 1: 1.5, 2: 4.0} if row.weights == "class_weight" else None
    return model, {"x": dataset, "epochs": EPOCHS, "class_weight": class_weight, "verbose": 0}


def _model(loss: Loss, row: TableRow) -> Any:
    outputs = keras.layers.Dense(WIDTH + (loss.targets == "texts"), activation=loss.activation)
    hidden = keras.layers.Dense(4, activation="tanh")
    if row.values == "of a sample":
        inputs = keras.Input((6,))
        return keras.Model(inputs, outputs(hidden(inputs)))
    tokens = keras.Input((LENGTH,), dtype="int32")
    is_masked = row.values == "of positions without padding"
    return keras.Model(
        tokens, outputs(hidden(keras.layers.Embedding(11, 4, mask_zero=is_masked)(tokens)))
    )


def _samples(row: TableRow) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return inputs, targets and sample weights, whose mean differs between batches and ranks."""
    generator = np.random.default_rng(9)
    num_samples, _ = SPLITS[row.split]
    is_flat = row.values == "of a sample"
    if is_flat:
        x = generator.normal(size=(num_samples, 6)).astype("float32")
    else:
        tokens = generator.integers(1, 11, (num_samples, LENGTH))
        lengths = generator.integers(1, LENGTH + 1, (num_samples, 1))
        x = np.where(np.arange(LENGTH) < lengths, tokens, 0).astype("int32")
    shape = (num_samples,) if is_flat else (num_samples, LENGTH)
    y = _targets(LOSSES[row.loss].targets, shape, generator)
    of_samples = np.linspace(0.1, 3.0, num_samples, dtype="float32")
    weights = {
        "none": None,
        "class_weight": None,
        "sample_weight": of_samples if np.ndim(y) == 1 or is_flat else of_samples[:, None],
        "temporal": generator.uniform(0.1, 3.0, shape).astype("float32"),
    }
    if LOSSES[row.loss].targets == "texts":
        weights["sample_weight"] = of_samples  # one value for each text
    return x, y, weights[row.weights]


def _targets(kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    classes = generator.integers(0, WIDTH, shape).astype("int32")
    numbers = generator.normal(size=(*shape, WIDTH)).astype("float32")
    targets = {
        "classes": classes,
        "one_hot": np.eye(WIDTH, dtype="float32")[classes],
        "numbers": numbers,
        "positive": np.abs(numbers) + 0.5,
        "signs": np.where(numbers > 0, 1.0, -1.0).astype("float32"),
        "bits": (numbers > 0).astype("float32"),
        "texts": generator.integers(1, WIDTH + 1, (shape[0], 2)).astype("int32"),
    }
    return targets[kind]
