"""What else a step of Keras is made of: losses, metrics, optimizers, whole steps, weights."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from census_record import Census, is_call, is_subclass, options, public
from census_tracing import Example, example, traced_types
from census_values import (
    INTS,
    LABELS,
    MATRICES,
    MATRIX,
    NUMBERS,
    SIDE,
    VECTORS,
    named_arguments,
    required,
    rows,
)

# Targets and predictions.
PAIRS: tuple[tuple[Any, Any], ...] = (
    (VECTORS, VECTORS),
    (LABELS, VECTORS),
    (rows(1, dtype=tf.int32), VECTORS),
    (INTS, MATRICES),
)
LABELLED: tuple[tuple[Any, Any], ...] = ((LABELS, VECTORS),)
SEQUENCES: tuple[tuple[Any, Any], ...] = ((INTS, rows(6, 5)),)
PAIRS_OF: dict[str, tuple[tuple[Any, Any], ...]] = {
    "CTC": SEQUENCES,
    "Circle": LABELLED,
    "circle": LABELLED,
    "ctc": SEQUENCES,
}

LOSS_OPTIONS: dict[str, tuple[Any, ...]] = {
    "apply_class_balancing": (True,),
    "axis": (1, (1,)),
    "from_logits": (True,),
    "ignore_class": (1,),
    "label_smoothing": (0.1,),
    "remove_diagonal": (False,),
}
OPTIONS_OF_ALL_LOSSES: dict[str, tuple[Any, ...]] = {
    "dtype": ("float16",),
    "reduction": ("sum", "none", "mean", "mean_with_sample_weight"),
}

METRIC_ARGUMENTS: dict[str, dict[str, Any]] = {
    "IoU": {"num_classes": 2, "target_class_ids": (0,)},
    "MeanIoU": {"num_classes": 2},
    "MeanMetricWrapper": {"fn": keras.losses.mean_squared_error},
    "OneHotIoU": {"num_classes": SIDE, "target_class_ids": (0,)},
}
METRIC_OPTIONS: dict[str, tuple[Any, ...]] = {
    "average": ("micro", "macro", "weighted"),
    "class_aggregation": ("variance_weighted_average",),
    "class_id": (1,),
    "curve": ("PR",),
    "from_logits": (True,),
    "ignore_class": (1,),
    "multi_label": (True,),
    "num_regressors": (1,),
    "sparse_y_pred": (True, False),
    "summation_method": ("minoring",),
    "thresholds": ((0.2, 0.7),),
    "top_k": (2,),
}

# Together, since each optimizer has all of the second and some of the first.
OPTIMIZER_CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {
        "amsgrad": True,
        "centered": True,
        "l1_regularization_strength": 0.1,
        "l2_shrinkage_regularization_strength": 0.1,
        "momentum": 0.9,
        "relative_step": False,
        "warmup_steps": 3,
    },
    {
        "clipnorm": 1.0,
        "ema_overwrite_frequency": 2,
        "gradient_accumulation_steps": 2,
        "momentum": 0.9,
        "nesterov": True,
        "use_ema": True,
        "weight_decay": 0.01,
    },
    {"clipvalue": 1.0, "use_ema": True, "gradient_accumulation_steps": 2},
    {"global_clipnorm": 1.0, "loss_scale_factor": 2.0},
)
SCHEDULE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "PiecewiseConstantDecay": {"boundaries": (1, 3), "values": (0.3, 0.2, 0.1)},
}
SCHEDULE_OPTIONS: dict[str, tuple[Any, ...]] = {
    "cycle": (True,),
    "staircase": (True,),
    "warmup_target": (0.2,),
}


def add_losses(census: Census) -> None:
    for name, function in public(keras.losses, is_call):
        add_function_of_pairs(census, f"keras.losses.{name}", function)
    for name, cls in public(keras.losses, is_subclass(keras.losses.Loss)):
        pairs = [example(*pair) for pair in PAIRS_OF.get(name, PAIRS)]
        add_loss(census, f"keras.losses.{name}", cls, {}, pairs)
        for option in options(cls.__init__, LOSS_OPTIONS):
            add_loss(census, f"keras.losses.{name}", cls, option, pairs)
    squared = keras.losses.MeanSquaredError
    for option in options(squared.__init__, OPTIONS_OF_ALL_LOSSES):
        add_loss(census, "keras.losses.MeanSquaredError", squared, option, [example(*PAIRS[0])])


def add_loss(
    census: Census, name: str, cls: Any, option: dict[str, Any], pairs: list[Example]
) -> None:
    weighted = [pair.with_arguments(sample_weight=NUMBERS) for pair in pairs]
    for calls in (pairs, weighted):
        census.add(name, [functools.partial(loss_types, cls, option, one) for one in calls], 1)


def loss_types(cls: Any, option: dict[str, Any], call: Example) -> set[str]:
    return traced_types(cls(**option), call)


def add_function_of_pairs(census: Census, name: str, function: Any) -> None:
    named = named_arguments(function)
    pairs = PAIRS_OF.get(function.__name__, PAIRS)
    calls = [example(*pair, **named) for pair in pairs]
    census.add(name, [functools.partial(traced_types, function, one) for one in calls], limit=2)


def add_metrics(census: Census) -> None:
    for name, function in public(keras.metrics, is_call):
        if not hasattr(keras.losses, name):
            add_function_of_pairs(census, f"keras.metrics.{name}", function)
    for name, cls in public(keras.metrics, is_subclass(keras.metrics.Metric)):
        arguments = named_arguments(cls.__init__) | METRIC_ARGUMENTS.get(name, {})
        for option in [{}, *options(cls.__init__, METRIC_OPTIONS)]:
            make = functools.partial(cls, **arguments | option)
            traces = [functools.partial(metric_types, make, call) for call in metric_calls(cls)]
            census.add(f"keras.metrics.{name}", traces, limit=1 if option else 2)


def metric_calls(cls: Any) -> Iterator[Example]:
    accepted = inspect.signature(cls.update_state).parameters
    for values in PAIRS if "y_true" in accepted else [(VECTORS,)]:
        if "sample_weight" in accepted:
            yield example(*values, sample_weight=NUMBERS)
        yield example(*values)


def metric_types(make: Callable[[], Any], call: Example) -> set[str]:
    metric = make()

    def updated(*args: Any, **kwargs: Any) -> None:
        metric.update_state(*args, **kwargs)
        metric.result()

    return traced_types(updated, call, gradients=False)


def add_optimizers(census: Census) -> None:
    optimizers = keras.optimizers
    for name, cls in public(optimizers, is_subclass(optimizers.Optimizer)):
        choices = OPTIMIZER_CHOICES if not required(cls.__init__) else ({},)
        makes = [functools.partial(made_optimizer, cls, choice) for choice in choices]
        census.add(
            f"keras.optimizers.{name}", [functools.partial(optimizer_types, make) for make in makes]
        )
    schedules = optimizers.schedules
    for name, cls in public(schedules, is_subclass(schedules.LearningRateSchedule)):
        arguments = named_arguments(cls.__init__) | SCHEDULE_ARGUMENTS.get(name, {})
        for option in [{}, *options(cls.__init__, SCHEDULE_OPTIONS)]:
            make = functools.partial(optimizers.SGD, cls(**arguments | option))
            trace = functools.partial(optimizer_types, make)
            census.add(f"keras.optimizers.schedules.{name}", [trace])


def made_optimizer(cls: Any, choice: dict[str, Any]) -> Any:
    if cls.__name__ == "LossScaleOptimizer":
        return cls(keras.optimizers.Adam())
    if cls.__name__ == "MultiOptimizer":
        return cls(lambda variable: keras.optimizers.SGD())
    accepted = inspect.signature(cls.__init__).parameters
    return cls(**{name: value for name, value in choice.items() if name in accepted})


def optimizer_types(make: Callable[[], Any]) -> set[str]:
    """Operation types of a step that moves a matrix, a vector and some rows of a table."""
    optimizer = make()
    kernel, bias, table = weights = [
        keras.Variable(tf.zeros(shape)) for shape in ((SIDE, SIDE), (SIDE,), (10, SIDE))
    ]
    optimizer.build(weights)

    def update(x: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            difference = x @ kernel.value + bias.value - tf.gather(table.value, labels)
            loss = optimizer.scale_loss(tf.reduce_mean(tf.square(difference)))
        optimizer.apply(tape.gradient(loss, [weight.value for weight in weights]), weights)

    return traced_types(update, example(VECTORS, LABELS), gradients=False)


def add_what_acts_on_weights(census: Census) -> None:
    for module, base, values in (
        ("regularizers", keras.regularizers.Regularizer, [MATRIX]),
        ("constraints", keras.constraints.Constraint, [MATRIX]),
        ("initializers", keras.initializers.Initializer, [(SIDE, SIDE), (8, 1, SIDE)]),
    ):
        for name, cls in public(getattr(keras, module), is_subclass(base)):
            traces = [
                lambda cls=cls, value=value: traced_types(cls(), example(value)) for value in values
            ]
            census.add(f"keras.{module}.{name}", traces, limit=1)


def add_steps(census: Census) -> None:
    """Add the steps of a model that is compiled with what `fit` takes beside a loss."""
    for policy in ("float32", "mixed_float16"):
        inputs = keras.Input((SIDE,))
        hidden = keras.layers.Dense(3, kernel_constraint="max_norm", dtype=policy)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(SIDE, dtype=policy)(hidden))
        model.compile("adam", "mse", metrics=["mae"], weighted_metrics=["mse"])
        if policy == "mixed_float16":
            model.optimizer = keras.optimizers.LossScaleOptimizer(model.optimizer)
        model.optimizer.build(model.trainable_variables)
        data = (VECTORS, VECTORS, NUMBERS)
        for step, given in (("train", data), ("test", data), ("predict", (VECTORS,))):
            call = functools.partial(
                traced_types, getattr(model, f"{step}_step"), example(given), gradients=False
            )
            census.add(f"keras.Model.{step}_step", [call])
