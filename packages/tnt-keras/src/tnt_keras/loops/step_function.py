"""`tnt.function`: a step of a training loop of the user's own, computed by all ranks together."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, overload

import tensorflow as tf

from tnt_data import fingerprint_of
from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.loops.arguments import Arguments, Layout
from tnt_keras.loops.constants import check_same_constants
from tnt_keras.loops.part import Part, part_of
from tnt_keras.loops.step_model import StepModel
from tnt_keras.loops.whole_files import make_files_whole
from tnt_keras.model.batch_norm import warn_about_batch_statistics
from tnt_keras.model.first_step import prepare_single_step
from tnt_keras.model.model import Model
from tnt_keras.probe.samples.first_samples import take_rows
from tnt_keras.process.environment import PROBES
from tnt_keras.process.log import logger
from tnt_keras.process.other_distribution import check_no_strategy
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.context import is_inside_step
from tnt_keras.step.local_batch import CheckedBatch, num_rows

_COMPARED_ROWS = 8  # of each argument: enough to notice other samples, and next to nothing to read

_MANY_MODELS = 5


class StepFunction:
    """A function of the user's own that runs as a step of all ranks; made by `function`.

    Args:
        python_function: The function, or a `tf.function` of it.
        run_eagerly: As for `function`.
        probe: As for `function`.
    """

    def __init__(
        self, python_function: Callable[..., Any], run_eagerly: bool, probe: str | None
    ) -> None:
        functools.update_wrapper(self, python_function)
        name = getattr(python_function, "__name__", type(python_function).__name__)
        self._run_eagerly = run_eagerly
        self._probe = probe
        self._name = name
        self._function = python_function if run_eagerly else _as_graph(python_function)
        self._models: dict[Layout, Any] = {}
        self._run_on_all_ranks = collective_call(name)(self._run)

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Be a method of an instance, as functions in classes are."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step. Collective, unless it is called inside of another step.

        Args:
            *args: Of the function.
            **kwargs: Of the function.

        Returns:
            What the function returns, of the global batch and equal on all ranks.
        """
        if is_inside_step():
            return self._function(*args, **kwargs)
        check_no_strategy(self._name)
        if get_size() == 1:
            return self._function(*args, **kwargs)
        if tf.inside_function():
            raise RuntimeError(
                f"`{self._name}` was called inside of a `tf.function`, which cannot hold a step of "
                "several ranks: call it from Python, with `@tnt.function` instead of "
                "`@tf.function` on what calls the optimizer."
            )
        return self._run_on_all_ranks(args, kwargs)

    def _run(self, args: Any, kwargs: Any) -> Any:
        arguments = Arguments.of_call(args, kwargs, is_for_graph=not self._run_eagerly)
        element = _element(arguments, self._name)
        rows = element.micro_batch.data
        model = self._models.get(arguments.layout)
        if model is None:
            model = self._models[arguments.layout] = self._new_model(arguments)
        for variable, value in zip(model.scalars, arguments.scalars, strict=True):
            variable.assign(value)
        is_first = not model._tnt_preparation.is_synchronized
        model._tnt_communication.make_data_check()
        prepare_single_step(model, "train_step", rows)
        if is_first:
            make_files_whole([*model.used_layers, *_known_by_name(inspect.unwrap(self))])
            warn_about_batch_statistics(model, int(element.micro_batch.num_global))
        model.make_train_function()
        return model.train_function(iter([element]))

    def _new_model(self, arguments: Arguments) -> Any:
        check_same_constants(arguments.constants, self._name)
        if len(self._models) + 1 == _MANY_MODELS:
            logger.warning(
                "`%s` was called with %d different sets of arguments that are constants, each of "
                "which makes a graph and a proof of its own. Give numbers that change as tensors: "
                "`tf.constant(value)`.",
                self._name,
                _MANY_MODELS,
            )
        model = StepModel(
            self._function, arguments.layout, arguments.scalars, self._name, self._run_eagerly
        )
        # As on one rank, where the function is TensorFlow's.
        return Model(model, probe=self._probe, fused_batch_norm=False)


@overload
def function(
    python_function: Callable[..., Any], *, run_eagerly: bool = ..., probe: str | None = ...
) -> StepFunction: ...


@overload
def function(
    python_function: None = ..., *, run_eagerly: bool = ..., probe: str | None = ...
) -> Callable[[Callable[..., Any]], StepFunction]: ...


def function(
    python_function: Callable[..., Any] | None = None,
    *,
    run_eagerly: bool = False,
    probe: str | None = None,
) -> Any:
    """Make a function a step of a training loop that all ranks compute together. Local.

    For example::

        @tnt.function                      # in the place of `@tf.function`
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            accuracy.update_state(y, model(x))
            return loss

    Each call is one step, as `train_on_batch` is: its arguments hold one global batch, of which
    rank r of n computes the rows r, r + n, ...; with n_r of n samples there, gradients, returned
    values and states of metrics combine as in a `train_step` in `fit`: by default the mean
    sum_r (n_r / n) * v_r, or the rule that the proof of the first step finds. What the function
    uses need not be told: any number of models, optimizers, losses and metrics.

    - Arrays and tensors with a dimension are samples, all with the same number of rows. They are a
      global batch that all ranks have, or come from an element of `tnt.data.distribute(dataset)`
      as they are.
    - Tensors without dimensions may change from call to call; they are the same on all ranks.
    - Other arguments are constants, the same on all ranks; a dictionary or a list of them is one
      too. As in a `tf.function`, a new value makes a new graph, with a proof of its own.

    Inside of another step it is a plain function. On one rank it is a `tf.function`.

    Args:
        python_function: The function, also one that is a `tf.function` already.
        run_eagerly: Whether it runs as Python code in each step, for `.numpy()` say.
        probe: As for `tnt.Model`.

    Returns:
        The step, to be called by all ranks with the same arguments or their parts; what it returns
        is equal on all of them, tensors with a row for each sample in serial order.

    Raises:
        ValueError: If `probe` is none of its words. When it is called, if arguments have different
            numbers of rows or ranks were given different batches.
        TypeError: When it is called, if no argument holds samples, or one holds samples and other
            things.
        RuntimeError: When it is called inside of a `tf.function`, or if one rank has changed the
            weights by itself.
        ProbeError: When it is called, if its results would not be those of one rank.
        tnt_comm.CommError: When it is called, if another rank is lost, late, or in another call.
    """
    if probe is not None and probe not in PROBES:
        raise ValueError(f"`probe` must be one of {', '.join(PROBES)}. Received: probe={probe!r}.")
    if python_function is None:
        return functools.partial(function, run_eagerly=run_eagerly, probe=probe)
    return StepFunction(python_function, run_eagerly, probe)


def _known_by_name(python_function: Any) -> list[Any]:
    """Return what a function knows by a name from outside, such as a model whose parts it calls."""
    if not (inspect.isfunction(python_function) or inspect.ismethod(python_function)):
        return []
    names = inspect.getclosurevars(python_function)
    return [*names.nonlocals.values(), *names.globals.values()]


def _as_graph(python_function: Callable[..., Any]) -> Callable[..., Any]:
    is_graph = hasattr(python_function, "get_concrete_function")
    return python_function if is_graph else tf.function(python_function)


def _element(arguments: Arguments, name: str) -> CheckedBatch:
    """Return what the step of this rank is given."""
    leaves = [leaf for leaf in tf.nest.flatten(arguments.samples) if leaf is not None]
    if not leaves:
        raise TypeError(
            f"`{name}` was called without samples, so that there is nothing to share between "
            "ranks: give it the batch, an array or tensor with one row for each sample. What does "
            "something without one, such as applying gradients that were added up, belongs into "
            "the function that has the batch."
        )
    numbers = [int(num_rows(leaf)) for leaf in leaves]
    if len(set(numbers)) > 1:
        raise ValueError(
            f"All arrays and tensors that `{name}` is given must have a row for each sample of the "
            f"batch, but they have {numbers} rows. Let it read others where they are defined, or "
            "from a `tf.Variable`."
        )
    fingerprint = fingerprint_of((arguments.scalars,))
    parts = [part_of(leaf) for leaf in leaves]
    known = [part for part in parts if part is not None]
    if not known:
        return _part_of_global_batch(arguments.samples, numbers[0], fingerprint)
    if len(known) < len(parts) or len({(one.num_local, one.num_global) for one in known}) > 1:
        raise ValueError(
            f"Some arguments of `{name}` are this rank's part of a batch, as "
            "`tnt.data.distribute` gives it, and others are not, or are parts of another batch. "
            f"Give it the elements as they are, and change them in `{name}` or by `dataset.map`."
        )
    return known[0].element(arguments.samples, fingerprint)


def _part_of_global_batch(samples: Any, num_global: int, fingerprint: tf.Tensor) -> CheckedBatch:
    rank, size = get_rank(), get_size()
    own = range(rank, num_global, size)
    some = range(0, num_global, max(1, num_global // _COMPARED_ROWS))
    fingerprint += fingerprint_of(take_rows(samples, some))
    return Part(len(own), num_global).element(take_rows(samples, own), fingerprint)
