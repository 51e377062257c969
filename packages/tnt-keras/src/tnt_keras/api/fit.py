"""`fit` on all ranks."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.api.first_step import (
    build_by_tracing,
    build_optimizer,
    check_compiled,
    prepare_steps,
    split_arguments,
    switches,
)
from tnt_keras.callbacks.lockstep import LeaveWhenAsked
from tnt_keras.callbacks.select import select_callbacks, takes_others
from tnt_keras.calls.agree import compared_at_once
from tnt_keras.calls.together import collective_call
from tnt_keras.inputs.arguments import (
    TRAINING,
    VALIDATION,
    complete_validation,
    input_of_call,
    is_left_to_keras,
)
from tnt_keras.inputs.arrays import SEED
from tnt_keras.inputs.compare_ranks import require_same_arguments
from tnt_keras.inputs.distribute import callbacks_for_data, distribute_input
from tnt_keras.keras_hooks.patch import MixinBase, signature_of
from tnt_keras.keras_hooks.private import is_loader
from tnt_keras.process.rank import logger, verbosity
from tnt_keras.process.training_requests import listening
from tnt_keras.restart.fit_backup import FitBackup, backup_of


class Fitting(MixinBase):
    """Mixin for a Keras model: trains on all ranks."""

    @collective_call("fit", compares=True)
    @signature_of(
        keras.Model.fit,
        tnt_micro_batch_size=None,
        tnt_validation_micro_batch_size=None,
        tnt_distribute_dataset=True,
        tnt_distribute_validation_dataset=True,
        tnt_read=None,
        verify_inputs=None,
    )
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:  # noqa: D417
        """Train on all ranks together, otherwise as `keras.Model.fit`. Collective.

        Args:
            x: A `tf.data.Dataset`, batched with the global batch size or unbatched; arrays; a
                `keras.utils.PyDataset` or a generator of global batches. All ranks must pass the
                same.
            y: Targets for arrays.
            batch_size: Global batch size for arrays.
            epochs: As in Keras.
            verbose: As in Keras; only the master rank shows anything.
            callbacks: As in Keras. They run on all ranks with global logs; those that only write
                (`CSVLogger`, `TensorBoard`, loggers) run on the master rank. See `tnt.callbacks`.
            validation_split: As in Keras.
            validation_data: As in Keras; batched like `x`, and distributed too.
            shuffle: True or False, for arrays and for the batches of a `PyDataset`; "batch" mixes
                the rows of each batch of arrays, which stay together.
            class_weight: As in Keras.
            sample_weight: As in Keras.
            initial_epoch: As in Keras.
            steps_per_epoch: As in Keras.
            validation_steps: As in Keras.
            validation_batch_size: Global batch size of arrays for validation.
            validation_freq: As in Keras.
            tnt_micro_batch_size: For an unbatched dataset, the number of samples of each rank in a
                step.
            tnt_validation_micro_batch_size: The same for `validation_data`.
            tnt_distribute_dataset: False if each rank passes its own samples, which ranks then do
                not share. All ranks must have the same number of steps.
            tnt_distribute_validation_dataset: The same for `validation_data`.
            tnt_read: "rank 0" if that rank reads `x` and `validation_data` as plain Keras does, and
                each rank gets its rows; "all" if each reads all batches, which must be equal. By
                default rank 0 reads what may be different each time: what draws random numbers
                without a seed, `DataLoader`s, and generators that validate with `validation_steps`.
                Arrays are on all ranks anyway.
            verify_inputs: True if ranks compare in each step what they have read, so that no sample
                is used twice and none is missing, which costs a little; False if not. By default
                they compare some rows of each batch that Python code makes without random numbers.

        Returns:
            The history, equal on all ranks.

        Raises:
            ValueError: If the model is not compiled, arguments contradict each other, or the
                dataset is not batched and no micro-batch size is given; if ranks have different
                numbers of steps or have read different data.
            tnt_comm.CommError: If another rank is lost, late, or in another call.
        """
        with contextlib.ExitStack() as stack:
            with compared_at_once("begin"):
                given, of_keras = split_arguments(Fitting.fit, self, *args, **kwargs)
                check_compiled(self, "fit")
                backup = backup_of(self, given["callbacks"])
                require_same_arguments(
                    given
                    | switches(self)
                    | {
                        "BackupAndRestore": backup is not None,
                        "validation_data": None if given["validation_data"] is None else "given",
                    }
                )
                if backup is not None:
                    stack.enter_context(backup.taking_part())
                folder = None if backup is None else backup.folder
                is_listening = stack.enter_context(listening(has_backup=backup is not None))
                can_leave = is_listening and takes_others(given["callbacks"])
                leaving = [LeaveWhenAsked(folder)] if can_leave else []
                replacements = _replacements(self, given, backup, leaving)
            return super().fit(**of_keras | replacements)


def _replacements(
    model: Any, given: dict[str, Any], backup: FitBackup | None, leaving: list[LeaveWhenAsked]
) -> dict[str, Any]:
    """Return what Keras' `fit` is given on this rank instead of the user's. Collective."""
    training = input_of_call(given, TRAINING)
    validation = input_of_call(given, VALIDATION)
    # Another order in each call, like that of epochs, and the same on all ranks.
    seed = SEED + model._tnt_owner.num_fits
    if model._tnt_owner.num_fits == 0:
        _warn_of_step_without_batch(model, given["x"], given["steps_per_epoch"])
    model._tnt_owner.num_fits += 1
    if not model.run_eagerly:
        build_optimizer(model)
    if backup is None and is_left_to_keras(training, validation):
        of_user = given["callbacks"]
        return {"callbacks": select_callbacks(of_user, training=True, after=leaving)}
    training, validation = complete_validation(training, validation, given["validation_split"])
    train_input = distribute_input(
        training, shuffle=given["shuffle"], class_weight=given["class_weight"], seed=seed
    )
    test_input = None if validation.x is None else distribute_input(validation)
    prepare_steps(model)
    first = callbacks_for_data(
        model._tnt_owner.data_check, training=train_input, testing=test_input
    )
    replacements = {
        "x": train_input.data,
        "y": None,
        "sample_weight": None,
        "batch_size": None,
        "class_weight": None,  # these weights are in the data now
        "shuffle": False,  # the data are shuffled already
        "validation_split": 0.0,
        "validation_data": None if test_input is None else test_input.data,
        "validation_batch_size": None,
        "verbose": verbosity(given["verbose"]),
        "callbacks": select_callbacks(
            given["callbacks"] if backup is None else backup.callbacks,
            training=True,
            first=first,
            before=[] if backup is None else [backup.restoring],
            after=[*([] if backup is None else [backup]), *leaving],
        ),
    }
    if backup is not None:
        build_by_tracing(model, "train_step", train_input.batch_spec)
        lives_on = not training.is_from_arrays and not hasattr(training.x, "num_batches")
        backup.begin(train_input, test_input, lives_on=lives_on)
        replacements["initial_epoch"] = backup.first_epoch(given["initial_epoch"], given["epochs"])
    return replacements


def _warn_of_step_without_batch(model: Any, x: Any, steps_per_epoch: int | None) -> None:
    """Warn of the step that Keras takes at the end of each epoch of unknown length. Local.

    What needs no batch runs in it: `optimizer.iterations` counts one more, and states of seeds
    advance, as in plain Keras. Where batches have a fixed size, it is added to the counts of means,
    too, which are then too small by the factor s / (s + 1) after s steps. Several steps in an
    execution, eager steps, and those that XLA compiles have no such step.
    """
    if isinstance(x, tf.data.Dataset):
        is_unknown = int(x.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    else:
        has_length = hasattr(getattr(x, "dataset", None), "__len__")  # of a loader of torch
        is_unknown = inspect.isgenerator(x) or (is_loader(x) and not has_length)
    if not is_unknown or steps_per_epoch:
        return
    if model.run_eagerly or model.jit_compile or model.steps_per_execution > 1:
        return
    logger.warning(
        "fit: the number of batches is unknown. Keras then ends an epoch with a step without a "
        "batch, which also increments `optimizer.iterations`: schedules and Adam's corrections "
        "run ahead. If batches have a fixed size, logged means are also too small. Give the "
        "number: `dataset.apply(tf.data.experimental.assert_cardinality(number))`, or "
        "`steps_per_epoch`. [number-of-batches]"
    )
