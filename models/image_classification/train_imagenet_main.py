"""Train a classifier of images on ImageNet, or on data that lie on disks like it.

    tarantella -n 8 -- models/image_classification/train_imagenet_main.py --data_dir=/data/imagenet
    python models/image_classification/train_imagenet_main.py --distribute=none --synthetic_data

The second command is plain Keras, in one process. README.md beside this file has the published
recipes.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it runs from anywhere

from models.image_classification.flags import DECIDING, parse_arguments
from models.shared.distribution import Distribution, ParallelMethods
from models.shared.training_flags import make_folders_for_results

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def train(arguments: argparse.Namespace) -> keras.callbacks.History:
    """Train as the flags say, and return the history. Collective.

    Args:
        arguments: From `parse_arguments`.
    """
    import keras

    from models.image_classification.damaged_pictures import told_how_to_find_them
    from models.shared.resuming import prepare_to_resume

    make_folders_for_results(arguments)
    distribution = Distribution(ParallelMethods(arguments.distribute))
    keras.utils.set_random_seed(arguments.shuffle_seed)

    train_dataset, val_dataset = load_datasets(arguments, distribution)
    model = build_model(arguments)
    model = distribution.wrap(model, arguments.strategy)
    model.compile(
        optimizer=make_optimizer(arguments, train_dataset, distribution.size),
        loss=make_loss(arguments),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    resumption = prepare_to_resume(
        distribution,
        model,
        train_dataset,
        arguments.model_dir and arguments.model_dir / "backup",
        settings={name: getattr(arguments, name) for name in DECIDING},
        resume=arguments.resume,
        save_freq=arguments.backup_freq,
    )
    with told_how_to_find_them(arguments.data_dir):
        history = model.fit(
            train_dataset,
            epochs=arguments.train_epochs,
            initial_epoch=resumption.initial_epoch,
            validation_data=val_dataset,
            validation_freq=arguments.val_freq,
            callbacks=[*make_callbacks(arguments, distribution), *resumption.callbacks],
            shuffle=False,  # the dataset does
            verbose=arguments.verbose,
        )
    if arguments.model_dir is not None:
        model.save(arguments.model_dir / "model.keras")
    if distribution.is_master:
        resumption.discard_backup(history, arguments.train_epochs)
    return history


def load_datasets(
    arguments: argparse.Namespace, distribution: Distribution
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Return training and validation data, in batches of the whole step. Collective."""
    from models.image_classification.datasets import load_dataset, synthetic_dataset

    common = {"batch_size": arguments.batch_size, "image_size": arguments.image_size}
    num_samples = {"train": arguments.train_num_samples, "validation": arguments.val_num_samples}
    if arguments.synthetic_data:
        common |= {"num_classes": arguments.num_classes, "seed": arguments.shuffle_seed}
        return (
            synthetic_dataset(
                num_samples["train"], drop_remainder=arguments.drop_remainder, **common
            ),
            synthetic_dataset(num_samples["validation"], **common),
        )
    train_dataset, val_dataset = (
        load_dataset(
            dataset_type=split,
            data_dir=arguments.data_dir,
            num_samples=number,
            drop_remainder=arguments.drop_remainder and split == "train",
            shuffle_seed=arguments.shuffle_seed,
            num_classes=arguments.num_classes,
            from_master=distribution.from_master,
            **common,
        )
        for split, number in num_samples.items()
    )
    return train_dataset, val_dataset


def build_model(arguments: argparse.Namespace) -> keras.Model:
    """Return the network, with what the recipe changes in it. Local."""
    import keras

    from models.image_classification import architectures
    from models.shared.precision import layers_of_precision

    changes = architectures.Changes(
        weight_decay=arguments.weight_decay,
        zero_gamma=arguments.zero_gamma,
        synchronized_batch_norm=(
            arguments.synchronized_batch_norm and arguments.distribute == ParallelMethods.TNT.value
        ),
        dropout=arguments.dropout,
    )
    with layers_of_precision(arguments.mixed_precision):
        return architectures.build_model(
            keras, arguments.model_arch, arguments.image_size, arguments.num_classes, changes
        )


def make_optimizer(
    arguments: argparse.Namespace, train_dataset: tf.data.Dataset, num_ranks: int
) -> keras.optimizers.Optimizer:
    """Return gradient descent with momentum and the schedule of the flags. Local."""
    import keras

    from models.image_classification.learning_rate import make_schedule, scaled_rate

    rate = scaled_rate(
        arguments.base_learning_rate,
        arguments.learning_rate_scaling,
        arguments.batch_size,
        num_ranks,
    )
    steps_per_epoch = int(train_dataset.cardinality())
    if steps_per_epoch == 0:
        raise SystemExit(
            f"The pictures do not fill a batch of {arguments.batch_size}: lower --batch_size, or "
            "leave out --drop_remainder."
        )
    schedule = make_schedule(arguments.lr_schedule, rate, steps_per_epoch, arguments.warmup_epochs)
    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=arguments.nesterov)


def make_loss(arguments: argparse.Namespace) -> keras.losses.Loss:
    """Return the cross entropy, with smoothed labels if asked for. Local."""
    from models.image_classification import smoothed_loss

    return smoothed_loss.make_loss(arguments.label_smoothing)


def make_callbacks(arguments: argparse.Namespace, distribution: Distribution) -> list[Any]:
    """Return what flags ask for: files for TensorBoard, checkpoints, clocks. Local."""
    import keras

    from models.shared.runtime_profiler import RuntimeProfiler
    from models.shared.step_history import StepHistory
    from models.shared.time_history import TimeHistory

    callbacks: list[Any] = []
    if arguments.enable_tensorboard:
        callbacks.append(keras.callbacks.TensorBoard(arguments.model_dir / "tensorboard"))
    if arguments.enable_checkpoints:
        path = arguments.model_dir / "model.ckpt-{epoch:04d}.weights.h5"
        callbacks.append(keras.callbacks.ModelCheckpoint(path, save_weights_only=True))
    if arguments.profile_dir is not None:
        folder = arguments.profile_dir / f"tnt-{datetime.datetime.now():%Y%m%d-%H%M%S}"
        callbacks.append(
            keras.callbacks.TensorBoard(folder, update_freq="batch", profile_batch=(10, 20))
        )
    if arguments.profile_runtimes:
        profiler = RuntimeProfiler(
            arguments.batch_size,
            logging_freq=arguments.logging_freq,
            print_freq=arguments.print_freq,
        )
        callbacks.append(distribution.on_master(profiler))
    if arguments.enable_time_history:
        clock = TimeHistory(arguments.batch_size, counters=distribution.counters)
        callbacks.append(distribution.on_master(clock))
    if arguments.step_history is not None:
        callbacks.append(distribution.on_master(StepHistory(arguments.step_history)))
    return callbacks


def main(argv: Sequence[str] | None = None) -> None:
    """Parse flags, which refuses wrong ones before TensorFlow is loaded, and train."""
    train(parse_arguments(argv))


if __name__ == "__main__":
    main()
