"""`fit` on all ranks."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.callbacks.select import for_this_rank
from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.inputs.arguments import (
    Samples,
    Sharing,
    checked,
    must_be_left_to_keras,
    split_off_validation,
    validation_samples,
)
from tnt_keras.inputs.distribute import make_feed
from tnt_keras.inputs.py_dataset import SEED, in_common_order
from tnt_keras.model.batch_norm import warn_about_batch_statistics
from tnt_keras.model.first_step import PreparedSteps
from tnt_keras.process.verbosity import verbosity


class Fitting(PreparedSteps):
    """Mixin for a Keras model: trains on all ranks."""

    @collective_call("fit")
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        *,
        tnt_micro_batch_size: int | None = None,
        tnt_validation_micro_batch_size: int | None = None,
        tnt_distribute_dataset: bool = True,
        tnt_distribute_validation_dataset: bool = True,
        verify_inputs: bool = False,
    ) -> keras.callbacks.History:
        """As `keras.Model.fit`, on all ranks together. Collective.

        Args:
            x: A `tf.data.Dataset`, batched with the global batch size or unbatched; arrays; a
                `keras.utils.PyDataset` or a generator of global batches. All ranks must give the
                same.
            y: Targets for arrays.
            batch_size: Global batch size for arrays.
            epochs: As in Keras.
            verbose: As in Keras; only the master rank shows anything.
            callbacks: As in Keras. They run on all ranks with global logs; those that only write
                (`CSVLogger`, `TensorBoard`, `RemoteMonitor`) run on the master rank.
            validation_split: As in Keras.
            validation_data: As in Keras; batched like `x`, and distributed too.
            shuffle: True or False, for arrays and for the batches of a `PyDataset`.
            class_weight: As in Keras.
            sample_weight: As in Keras.
            initial_epoch: As in Keras.
            steps_per_epoch: As in Keras.
            validation_steps: As in Keras.
            validation_batch_size: Global batch size of arrays for validation.
            validation_freq: As in Keras.
            tnt_micro_batch_size: For an unbatched dataset, the samples of each rank in a step.
            tnt_validation_micro_batch_size: The same for `validation_data`.
            tnt_distribute_dataset: False if each rank gives samples of its own, which are not
                shared any more. All ranks must have the same number of steps.
            tnt_distribute_validation_dataset: The same for `validation_data`.
            verify_inputs: Whether ranks compare in each step what they have read, so that no sample
                is used twice and none is missing. It costs a little in each step.

        Returns:
            The history, equal on all ranks.

        Raises:
            ValueError: If the model is not compiled, arguments contradict each other, or the
                dataset is not batched and no micro-batch size is given; if ranks have different
                numbers of steps or have read different data.
            tnt_comm.CommError: If another rank is lost, late, or in another call.
        """
        self._check_compiled("fit")
        # Another order in each call, like that of epochs, and the same on all ranks.
        seed = SEED + self._tnt_num_fits
        object.__setattr__(self, "_tnt_num_fits", self._tnt_num_fits + 1)
        samples = Samples(x, y, sample_weight, batch_size)
        if tnt_validation_micro_batch_size is None:  # it says the size of these batches instead
            validation_batch_size = validation_batch_size or batch_size
        validation = validation_samples(validation_data, validation_batch_size)
        if must_be_left_to_keras(samples, validation):
            return super().fit(
                in_common_order(x, shuffle, seed),
                y,
                batch_size=batch_size,
                epochs=epochs,
                verbose=verbose,
                callbacks=callbacks,
                validation_split=validation_split,
                validation_data=validation_data,
                shuffle=shuffle if samples.is_from_arrays else False,
                class_weight=class_weight,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=validation_batch_size,
                validation_freq=validation_freq,
            )
        sharing = Sharing(
            tnt_micro_batch_size, tnt_distribute_dataset, verify_inputs, steps_per_epoch
        )
        samples = checked(samples, sharing)
        if validation_split and validation is None:
            samples, validation = split_off_validation(samples, validation_split)
        validation_feed = None
        if validation is not None:
            validation_sharing = Sharing(
                tnt_validation_micro_batch_size,
                tnt_distribute_validation_dataset,
                verify_inputs,
                validation_steps,
            )
            validation_feed = make_feed(checked(validation, validation_sharing), validation_sharing)
        feed = make_feed(samples, sharing, shuffle=shuffle, class_weight=class_weight, seed=seed)
        self._prepare("train_step", feed)
        warn_about_batch_statistics(self, feed.batch_size)
        end = self._end_of_data(training=feed, testing=validation_feed)
        return super().fit(
            feed.data,
            epochs=epochs,
            verbose=verbosity(verbose),
            callbacks=for_this_rank(callbacks, training=True, first=end),
            validation_data=None if validation_feed is None else validation_feed.data,
            shuffle=False,  # the dataset shuffles
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
        )
