"""The distributed model: a Keras model whose steps are computed by all ranks together."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.batch_norm import warn_about_batch_statistics
from tnt_keras.building import build_by_tracing
from tnt_keras.callbacks import EndOfData, for_this_rank
from tnt_keras.class_swap import add_mixin, plain_class
from tnt_keras.environment import settings
from tnt_keras.feed import Feed
from tnt_keras.feeding import make_feed
from tnt_keras.files import PlainFiles
from tnt_keras.inputs import (
    Samples,
    Sharing,
    checked,
    must_be_left_to_keras,
    split_off_validation,
    validation_samples,
)
from tnt_keras.log import logger
from tnt_keras.losses import check_reductions
from tnt_keras.optimizer import distribute_optimizer
from tnt_keras.python_batches import in_common_order
from tnt_keras.rank import get_size, is_master_rank
from tnt_keras.steps import DistributedSteps, StepCommunication
from tnt_keras.weights import synchronize


class Model(DistributedSteps, PlainFiles):
    """Makes a Keras model train, evaluate and predict on all ranks.

        model = tnt.Model(model)

    turns the given model itself (functional, Sequential or subclassed, compiled or not) into a
    distributed one and returns it; it stays a `keras.Model` with all its methods. Datasets and
    `batch_size` are those of the serial script: batches are global, every rank computes its part of
    each, and results are those of the serial run on every rank.

    All ranks must call the methods that compute or write: `fit`, `evaluate`, `predict`, the
    `*_on_batch` methods, `save` and `save_weights`. On one rank everything is plain Keras, except
    that shuffles without a seed get the one that they have on several ranks.

    Args:
        model: Any Keras model.

    Raises:
        TypeError: If `model` is not a Keras model.
    """

    _tnt_built_steps: set[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not Model:
            # A distributed class is asked for an instance when Keras copies the model from its
            # configuration. Copies are plain Keras models.
            return plain_class(cls)(*args, **kwargs)
        return _distribute(*args, **kwargs)

    def __init__(self, model: keras.Model) -> None:
        """Does nothing: `model` is this object, and it is initialised already."""

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any) -> None:
        """As `keras.Model.compile`. Local.

        XLA cannot compile communication, so that on several ranks `jit_compile` is False.

        Args:
            optimizer: As in Keras.
            loss: As in Keras; on several ranks every loss must be reduced to a scalar.
            **kwargs: As in Keras.

        Raises:
            ValueError: If a loss is not reduced.
        """
        if get_size() > 1:
            check_reductions(loss)
        super().compile(optimizer, loss, **kwargs)
        _distribute_compiled(self, asked_for_jit=kwargs.get("jit_compile") is True)

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
                numbers of steps.
            tf.errors.InvalidArgumentError: If ranks have read different data.
        """
        self._check_compiled("fit")
        samples = Samples(x, y, sample_weight, batch_size)
        if tnt_validation_micro_batch_size is None:  # it says the size of these batches instead
            validation_batch_size = validation_batch_size or batch_size
        validation = validation_samples(validation_data, validation_batch_size)
        if must_be_left_to_keras(samples, validation):
            return super().fit(
                in_common_order(x, shuffle),
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
        feed = make_feed(samples, sharing, shuffle=shuffle, class_weight=class_weight)
        self._prepare("train_step", feed)
        warn_about_batch_statistics(self, feed.batch_size)
        end = self._end_of_data(training=feed, testing=validation_feed)
        return super().fit(
            feed.data,
            epochs=epochs,
            verbose=_verbose(verbose),
            callbacks=for_this_rank(callbacks, training=True, first=end),
            validation_data=None if validation_feed is None else validation_feed.data,
            shuffle=False,  # the dataset shuffles
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        *,
        tnt_micro_batch_size: int | None = None,
        tnt_distribute_dataset: bool = True,
        verify_inputs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As `keras.Model.evaluate`, on all ranks together. Collective.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            sample_weight: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            return_dict: As in Keras.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: As for `fit`.
            verify_inputs: As for `fit`.
            **kwargs: What Keras passes on when `fit` validates.

        Returns:
            Loss and metrics over all samples, equal on all ranks.

        Raises:
            ValueError: As `fit` does.
        """
        if kwargs:  # `fit` validates, with data that it has distributed
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict, **kwargs
            )
        self._check_compiled("evaluate")
        samples = Samples(x, y, sample_weight, batch_size)
        if must_be_left_to_keras(samples):
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict
            )
        sharing = Sharing(tnt_micro_batch_size, tnt_distribute_dataset, verify_inputs, steps)
        feed = make_feed(checked(samples, sharing), sharing)
        self._prepare("test_step", feed)
        end = self._end_of_data(testing=feed)
        return super().evaluate(
            feed.data,
            verbose=_verbose(verbose),
            steps=steps,
            callbacks=for_this_rank(callbacks, training=False, first=end),
            return_dict=return_dict,
        )

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        *,
        tnt_micro_batch_size: int | None = None,
        tnt_distribute_dataset: bool = True,
        verify_inputs: bool = False,
    ) -> Any:
        """As `keras.Model.predict`, on all ranks together. Collective.

        Args:
            x: As for `fit`.
            batch_size: As for `fit`.
            verbose: As for `fit`.
            steps: As in Keras.
            callbacks: As for `fit`.
            tnt_micro_batch_size: As for `fit`.
            tnt_distribute_dataset: False if each rank gives samples of its own.
            verify_inputs: As for `fit`.

        Returns:
            The predictions for all samples in their order, on all ranks; if each rank has samples
            of its own, the predictions for those.

        Raises:
            ValueError: As `fit` does.
        """
        samples = Samples(x, batch_size=batch_size)
        if must_be_left_to_keras(samples):
            return super().predict(x, batch_size, verbose, steps, callbacks)
        sharing = Sharing(
            tnt_micro_batch_size, tnt_distribute_dataset, verify_inputs, steps, apart=True
        )
        feed = make_feed(checked(samples, sharing), sharing)
        self._prepare("predict_step", feed)
        end = self._end_of_data(predicting=feed)
        return super().predict(
            feed.data,
            verbose=_verbose(verbose),
            steps=steps,
            callbacks=for_this_rank(callbacks, training=False, first=end),
        )

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.train_on_batch`, for a global batch equal on all ranks. Collective."""
        self._check_compiled("train_on_batch")
        self._prepare_on_batch("train_step", (x, y))
        return super().train_on_batch(x, y, *args, **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.test_on_batch`, for a global batch equal on all ranks. Collective."""
        self._check_compiled("test_on_batch")
        self._prepare_on_batch("test_step", (x, y))
        return super().test_on_batch(x, y, *args, **kwargs)

    def predict_on_batch(self, x: Any) -> Any:
        """As `keras.Model.predict_on_batch`, for a global batch equal on all ranks. Collective."""
        self._prepare_on_batch("predict_step", (x,))
        return super().predict_on_batch(x)

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.summary`, shown by the master rank. Local."""
        if is_master_rank() or settings().output_on_all_ranks:
            super().summary(*args, **kwargs)

    def _check_compiled(self, method: str) -> None:
        if not self.compiled:
            raise ValueError(f"Call `compile()` before `{method}()`: the model has no loss yet.")

    def _prepare(self, step_name: str, feed: Feed) -> None:
        """Builds the model and gives all ranks the master's weights."""
        if get_size() > 1:
            self._build(step_name, feed.batch_spec)
            synchronize(self)
            self._tnt_synchronized = True

    def _end_of_data(
        self,
        training: Feed | None = None,
        testing: Feed | None = None,
        predicting: Feed | None = None,
    ) -> EndOfData | None:
        """What compares where the data of ranks end; None if that follows from the data."""
        compared = [
            feed is not None and feed.is_compared for feed in (training, testing, predicting)
        ]
        if not any(compared):
            return None
        exchange = self._tnt_communication.make_exchange()
        return EndOfData(
            exchange, training=compared[0], testing=compared[1], predicting=compared[2]
        )

    def _prepare_on_batch(self, step_name: str, batch: Any) -> None:
        if get_size() > 1:
            self._build(step_name, tf.nest.map_structure(_spec, batch))
            if not self._tnt_synchronized:
                synchronize(self)
                self._tnt_synchronized = True

    def _build(self, step_name: str, element_spec: Any) -> None:
        if step_name not in self._tnt_built_steps:
            build_by_tracing(self, step_name, element_spec)
            self._tnt_built_steps.add(step_name)


def _distribute(model: keras.Model) -> keras.Model:
    if not isinstance(model, keras.Model):
        raise TypeError(f"`tnt.Model` takes a `keras.Model`. Received: {type(model).__name__}.")
    if isinstance(model, Model):
        return model
    add_mixin(model, Model)
    # Past Keras' own __setattr__, which would track what it does not know.
    object.__setattr__(model, "_tnt_communication", StepCommunication())
    object.__setattr__(model, "_tnt_built_steps", set())
    object.__setattr__(model, "_tnt_synchronized", False)
    if model.compiled:
        _distribute_compiled(model, asked_for_jit=False)
    return model


def _distribute_compiled(model: Any, *, asked_for_jit: bool) -> None:
    model._tnt_built_steps.clear()
    object.__setattr__(model, "_tnt_synchronized", False)
    if get_size() == 1:
        return
    if asked_for_jit:
        logger.warning("jit_compile=True is ignored: XLA cannot compile communication.")
    model.jit_compile = False
    model._tnt_communication.optimizers.clear()
    if model.optimizer is not None:
        distribute_optimizer(model.optimizer)
        model._tnt_communication.add_optimizer(model.optimizer)


def _verbose(verbose: Any) -> Any:
    return verbose if is_master_rank() or settings().output_on_all_ranks else 0


def _spec(value: Any) -> Any:
    return None if value is None else tf.type_spec_from_value(tf.convert_to_tensor(value))
