"""The distributed model: a Keras model whose steps are computed by all ranks together."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.api.evaluate import Evaluating, SingleBatches
from tnt_keras.api.fit import Fitting
from tnt_keras.api.hashed_steps import hashed_if_wanted
from tnt_keras.api.parallel_strategy import ParallelStrategy, is_distributing
from tnt_keras.api.save import Saving
from tnt_keras.keras_hooks import patch, private, private_tensorflow
from tnt_keras.process import framework
from tnt_keras.process.lanes import given_lanes, is_partitioned, use_lanes, warn_of_xla
from tnt_keras.process.rank import get_size, is_shown
from tnt_keras.step.accumulation import reduce_before_copy
from tnt_keras.step.batch_norm_region import fused_batch_norm
from tnt_keras.step.keras_function import Steps, function_for_keras, new_steps, require_call
from tnt_keras.step.owner import (
    StepOwner,
    default_options,
    given_options,
    is_inside_step,
    notice_own_loops,
)


class _OfAnyClass(patch.MixinBase):
    """Mixin in front of a model's own class: steps of all ranks, and copies that are plain.

    On several ranks steps are partitioned along the batch. On one they run untouched, but that
    batch normalisation is fused.
    """

    _tnt_owner: StepOwner
    _tnt_signatures_of_others = ("train_step", "test_step")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a plain model: Keras copies a model by its class and its configuration."""
        return patch.plain_class(cls)(*args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Leave the object alone: `tnt.Model` returns it, which is initialised already."""

    @classmethod
    def from_config(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a plain model of its configuration, as the model's own class does. Local."""
        plain: Any = patch.plain_class(cls)
        return plain.from_config(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Copy and pickle as a plain Keras model. Local.

        It is collective in the middle of gradient accumulation, where ranks need each other's sums.
        """
        reduce_before_copy(self._tnt_owner.optimizers)
        with patch.without_mixins(self):  # the class is written too, by its name
            return self.__reduce__()

    def train_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Train on one batch, as the model's own class does, inside a call of all ranks. Local."""
        with self._tnt_step("train_step"):
            return super().train_step(data, *args, **kwargs)

    def test_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate one batch, as the model's own class does, inside a call of all ranks. Local."""
        with self._tnt_step("test_step"):
            return super().test_step(data, *args, **kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        """Make the function that `fit` calls for each step, anew if it is to. Local."""
        return self._tnt_function("train", super().make_train_function, force)

    def make_test_function(self, force: bool = False) -> Any:
        """Make the function that `evaluate` calls for each step, anew if it is to. Local."""
        return self._tnt_function("test", super().make_test_function, force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the function that `predict` calls for each step, anew if it is to. Local."""
        return self._tnt_function("predict", super().make_predict_function, force)

    def _tnt_function(self, kind: str, make: Callable[..., Any], force: bool) -> Any:
        attribute = f"{kind}_function"
        if not is_partitioned():
            make(force)
        elif force or getattr(self, attribute) is None:
            function = function_for_keras(
                kind,
                self._tnt_steps(kind, make),
                num_steps=lambda: self.steps_per_execution,
                plain=lambda: _made(self, kind, make),
            )
            setattr(self, attribute, function)
        hashed_if_wanted(self, kind)
        return getattr(self, attribute)

    def _tnt_step(self, name: str) -> Any:
        if get_size() > 1 and not is_inside_step():
            require_call(name)
        is_on_whole_batches = not is_partitioned() or tf.executing_eagerly()
        return fused_batch_norm(is_on_whole_batches and self._tnt_owner.options.fuses_batch_norm)

    def _tnt_steps(self, kind: str, make: Callable[..., Any]) -> Steps:
        name = f"{kind}_step"
        step: Callable[[Any], Any] = lambda batch: getattr(self, name)(batch)  # noqa: E731
        if not private.has_keras_methods(self, f"make_{kind}_function"):
            function = _made(self, kind, make)
            # One that makes variables is traced twice, and asks an iterator for a batch each time.
            batches = (lambda batch: [batch]) if kind == "predict" else itertools.repeat
            step = lambda batch: function(batches(batch))  # noqa: E731
        return new_steps(
            name,
            step,
            self._tnt_owner,
            run_eagerly=self.run_eagerly,
            compiles=bool(self.jit_compile),
        )


def _made(model: Any, kind: str, make: Callable[..., Any]) -> Any:
    """Return the function that the model's own class makes, and leave the model as it was."""
    attribute = f"{kind}_function"
    before = getattr(model, attribute)
    returned = make(True)
    made = getattr(model, attribute)
    setattr(model, attribute, before)
    return made if returned is None else returned


class Model(Fitting, Evaluating, SingleBatches, Saving, keras.Model):
    """Make a Keras model train, evaluate and predict on all ranks.

        model = tnt.Model(model)

    turns the given model itself (functional, Sequential or subclassed, compiled or not) into a
    distributed one and returns it; it stays a `keras.Model` with all its methods. Datasets and
    `batch_size` are those of the serial script: batches are global, every rank computes its part of
    each, and results are those of the serial run on every rank.

    If a class derived from `keras.Model` has its own method (`compile`, `fit`, `save`, ...), that
    is called as the user wrote it, on every rank; `super()` in it is this class.

    All ranks must call the methods that compute, or write or read files: `fit`, `evaluate`,
    `predict`, the `*_on_batch` methods, `save`, `save_weights`, `export` and `load_weights`. On one
    rank everything is plain Keras, except that shuffles without a seed get the same seed as on
    several ranks, and batch normalisation is fused as it is there.

    Args:
        model: Any Keras model; one that is distributed already only gets new options.
        parallel_strategy: `ParallelStrategy.DATA`; `NONE` returns the model as it is.
        fused_batch_norm: Whether the model's steps compute `keras.layers.BatchNormalization` with
            one operation when they train it, instead of the many that Keras uses. The results are
            the same up to rounding, and weights and files are untouched. This applies to inputs of
            4 dimensions with channels last or first and without mask, also on one rank. None, the
            default, is True for a new model.
        batch_norm: "local" to normalise batches with the statistics of each rank's rows, as usual
            in data-parallel training; "global" with those of the batch, as in the serial run. None,
            the default, is "local" for a new model. Layers with `synchronized=True`, and those of
            derived classes, take the statistics of the batch in any case.
        draws: "serial" for the random numbers of the serial run; "local" lets each rank draw its
            own for its rows, which is faster if most of a step is drawing: losses then depend on
            the number of ranks. None is "serial" for a new model.
        check: Whether the first step of each kind is compared with the serial one, which costs as
            much as a few steps; a difference is logged as an error, and is a bug in this package.
            None means what `TNT_CHECK_STEPS` says for a new model, otherwise False.
        lanes: Number of parts into which every batch is cut, whatever the number of ranks: all
            numbers of ranks among which they can be divided give the same bits. It holds for the
            whole process, and is best given by `tarantella --lanes`, which sets threads and seeds
            before the script begins. None leaves it as it is, by default one lane for each rank.

    Raises:
        TypeError: If `model` is not a Keras model, or `parallel_strategy` not a `ParallelStrategy`.
        ValueError: If `batch_norm` or `draws` is not one of its words, or this number of ranks
            cannot share the lanes.
        RuntimeError: If `lanes` come after batches were split without them.
        NotImplementedError: If pipelining is asked for.
    """

    def __new__(
        cls,
        model: keras.Model,
        parallel_strategy: ParallelStrategy = ParallelStrategy.DATA,
        *,
        fused_batch_norm: bool | None = None,
        batch_norm: str | None = None,
        draws: str | None = None,
        check: bool | None = None,
        lanes: int | None = None,
    ) -> Any:
        """Distribute the given model."""
        options = given_options(fused_batch_norm, batch_norm, draws, check)
        return _distribute(model, parallel_strategy, options=options, lanes=lanes)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Create a distributed model from what `get_config()` gives. Local.

        Args:
            config: Of a functional model, in `tnt.Sequential` of a `keras.Sequential`, distributed
                or not.
            custom_objects: As in Keras.

        Returns:
            A distributed model with new weights, not compiled.
        """
        plain = keras.Sequential if issubclass(cls, Sequential) else keras.Model
        return _distribute(plain.from_config(config, custom_objects))

    @patch.signature_of(keras.Model.compile)
    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the model as `keras.Model.compile` does. Local.

        With `jit_compile=True`, or where Keras chooses so by itself, XLA compiles what lies between
        exchanges: usually one function of the forward pass and backpropagation, and one of the
        update. Gradients are then sent when the first one ends, not while it runs. With lanes
        nothing is compiled.

        Args:
            *args: As in Keras.
            **kwargs: As in Keras.

        Raises:
            RuntimeError: If a `tf.distribute.Strategy` is active.
        """
        framework.check_no_strategy("compile")
        if given_lanes() is not None:
            signature = inspect.signature(keras.Model.compile)
            if signature.bind_partial(self, *args, **kwargs).arguments.get("jit_compile") is True:
                warn_of_xla()
        super().compile(*args, **kwargs)
        _distribute_compiled(self)

    @patch.signature_of(keras.Model.summary)
    def summary(self, *args: Any, **kwargs: Any) -> None:
        """Show on the master rank what `keras.Model.summary` shows. Local."""
        if is_shown():
            super().summary(*args, **kwargs)


class Sequential(Model, keras.Sequential):
    """Create a distributed `keras.Sequential` from its layers.

        model = tnt.Sequential([keras.Input((64,)), keras.layers.Dense(10)])

    is `tnt.Model(keras.Sequential([...]))`, and every distributed `keras.Sequential` is an instance
    of this class.

    Args:
        layers: As for `keras.Sequential`.
        trainable: As for `keras.Sequential`.
        name: As for `keras.Sequential`.
        fused_batch_norm: As for `Model`.
        batch_norm: As for `Model`.
        draws: As for `Model`.
        check: As for `Model`.
        lanes: As for `Model`.
    """

    def __new__(
        cls,
        layers: Any = None,
        trainable: bool = True,
        name: str | None = None,
        *,
        fused_batch_norm: bool | None = None,
        batch_norm: str | None = None,
        draws: str | None = None,
        check: bool | None = None,
        lanes: int | None = None,
    ) -> Any:
        """Make the Keras model and distribute it."""
        plain = keras.Sequential(layers, trainable, name)
        options = given_options(fused_batch_norm, batch_norm, draws, check)
        return _distribute(plain, options=options, lanes=lanes)


def _distribute(
    model: keras.Model,
    strategy: ParallelStrategy = ParallelStrategy.DATA,
    *,
    options: dict[str, Any] | None = None,
    lanes: int | None = None,
) -> keras.Model:
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`tnt.Model` takes a `keras.Model`. Received: {framework.class_for_errors(model)}."
        )
    if not is_distributing(strategy):
        return model
    if isinstance(model, Model):
        if lanes is not None:
            use_lanes(lanes)
        if options or lanes is not None:
            owner = model._tnt_owner
            owner.options = dataclasses.replace(owner.options, **(options or {}))
            _forget_functions(model)
        return model
    framework.check_not_distributed_otherwise(model)
    framework.set_up_process()
    private.check_version()
    if lanes is not None:
        use_lanes(lanes)
    if is_partitioned():
        private_tensorflow.check_version()
    below = Sequential if isinstance(model, keras.Sequential) else Model
    patch.add_mixin(model, _OfAnyClass, below=below)
    # Past Keras' own __setattr__, which would track what it does not know.
    owner = StepOwner(default_options(**(options or {})), model)
    object.__setattr__(model, "_tnt_owner", owner)
    if model.compiled:
        _distribute_compiled(model)
    _forget_functions(model)
    if get_size() > 1:
        notice_own_loops(model)
    return model


def _distribute_compiled(model: Any) -> None:
    owner = model._tnt_owner
    owner.is_synchronized = False
    if not is_partitioned():
        return
    if given_lanes() is not None and model.jit_compile:  # compiled before there were lanes
        warn_of_xla()
        model.jit_compile = False
    owner.optimizers.clear()
    # Keras drops its steps, and new ones add what they use, of which nothing is known to be equal.
    owner.variables.clear()
    owner.are_synchronized.clear()
    owner.own_logs = None  # its metrics are other ones
    if model.optimizer is not None:
        owner.add_optimizer(model.optimizer)


def _forget_functions(model: Any) -> None:
    """Drop the graphs of other steps, which Keras keeps if the model was used before."""
    model.train_function = model.test_function = model.predict_function = None
