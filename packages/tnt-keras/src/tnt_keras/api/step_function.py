"""Steps and loops of the user's own: `tnt.function`, `tnt.explain` and `tnt.should_stop`."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.api.function_arguments import (
    Arguments,
    GivenParts,
    Layout,
    call_with,
    check_same_constants,
)
from tnt_keras.api.model import Model
from tnt_keras.api.save import make_files_whole, noted_layers
from tnt_keras.calls.messages import allreduce
from tnt_keras.calls.together import collective_call
from tnt_keras.process import training_requests
from tnt_keras.process.framework import check_no_strategy, set_up_process
from tnt_keras.process.lanes import given_lanes, is_partitioned, use_lanes, warn_of_xla
from tnt_keras.process.rank import get_size, logger, print
from tnt_keras.process.step_hashes import step_hashes
from tnt_keras.step.data_check import NO_LABEL
from tnt_keras.step.keras_function import Steps, new_steps
from tnt_keras.step.owner import StepOwner, default_options, given_options, is_inside_step
from tnt_keras.step.replicas import check_replicas_in_turn, use_generators_of_master

_MANY_GRAPHS = 5


class StepFunction:
    """A function of the user's own that runs as a step of all ranks; made by `function`."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        run_eagerly: bool,
        options: dict[str, Any],
        of_tensorflow: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, python_function)
        name = getattr(python_function, "__name__", type(python_function).__name__)
        self._run_eagerly = run_eagerly
        self._name = name
        self._is_compiled = bool(of_tensorflow.get("jit_compile"))
        is_ready = run_eagerly or hasattr(python_function, "get_concrete_function")
        self._function = (
            python_function if is_ready else tf.function(python_function, **of_tensorflow)
        )
        # As on one rank, where the function is TensorFlow's.
        self._owner = StepOwner(default_options(fuses_batch_norm=False, **options))
        self._steps: dict[Layout, Steps] = {}
        self._owner.has_other_rows = True  # arguments of a function need not have a row for each
        self._parts = GivenParts(name)
        self._used: list[Any] = []  # layers, outermost ones, in order of first calls
        self._run_on_all_ranks = collective_call(name)(self._run)

    @property
    def all_steps(self) -> list[Steps]:
        """The steps that were called, one for each set of constants."""
        return list(self._steps.values())

    def __get__(self, instance: Any, owner: Any) -> Any:
        """Be a method of an instance, as functions in classes are."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step, with the results of the global batch. Collective outside of other steps."""
        if is_inside_step():
            return self._function(*args, **kwargs)
        check_no_strategy(self._name)
        if not is_partitioned():
            return self._recorded(self._function(*args, **kwargs))
        if tf.inside_function():
            raise RuntimeError(
                f"`{self._name}` was called inside a `tf.function`, which cannot contain a step "
                "of several ranks: call it from Python, with `@tnt.function` instead of "
                "`@tf.function` on the function that calls the optimizer."
            )
        return self._recorded(self._run_on_all_ranks(args, kwargs))

    def _recorded(self, result: Any) -> Any:
        """Return the result, after its hash was written, and those of what the function knows."""
        file = step_hashes()
        if file is not None:
            known = _known_by_name(inspect.unwrap(self))
            variables = {
                id(getattr(variable, "value", variable)): variable
                for each in known
                if isinstance(each, (keras.Model, keras.optimizers.Optimizer))
                for variable in each.variables
            }
            others = {id(each): each for each in self._owner.variables}
            file.record(self._name, self._name, result, [*(others | variables).values()])
        return result

    def _run(self, args: Any, kwargs: Any) -> Any:
        set_up_process()
        arguments = Arguments.of_call(args, kwargs, is_for_graph=not self._run_eagerly)
        part, fingerprint = self._parts.of(arguments.tensors)
        self._owner.data_check().same_batch(part.num_local, part.num_global, fingerprint, NO_LABEL)
        steps = self._steps.get(arguments.layout)
        if steps is None:
            steps = self._steps[arguments.layout] = self._new_steps(arguments)
        elif self._owner.variables:
            check_replicas_in_turn(self._owner)
        num_layers = len(self._used)
        with noted_layers(self._used):
            result = steps.run(part)
        if len(self._used) > num_layers:
            make_files_whole([*self._used, *_known_by_name(inspect.unwrap(self))])
        return result

    def _new_steps(self, arguments: Arguments) -> Steps:
        check_same_constants(arguments.constants, self._name)
        compiles = self._is_compiled and given_lanes() is None
        if self._is_compiled and not compiles and not self._steps:
            warn_of_xla()
        if len(self._steps) + 1 == _MANY_GRAPHS:
            logger.warning(
                "`%s` was called with %d different sets of constant arguments, and each makes its "
                "own graph. Pass numbers that change as tensors: `tf.constant(value)`. "
                "[many-graphs]",
                self._name,
                _MANY_GRAPHS,
            )
        layout = arguments.layout

        def step(given: Any) -> Any:
            return call_with(self._function, layout, given)

        run_eagerly = self._run_eagerly or tf.config.functions_run_eagerly()
        if run_eagerly:
            use_generators_of_master(with_seed=True)
        return new_steps(
            self._name,
            step,
            self._owner,
            run_eagerly=run_eagerly,
            traces_exactly=True,
            compiles=compiles,
        )


@overload
def function(
    python_function: Callable[..., Any],
    *,
    run_eagerly: bool = ...,
    batch_norm: str | None = ...,
    draws: str | None = ...,
    check: bool | None = ...,
    lanes: int | None = ...,
    **of_tensorflow: Any,
) -> StepFunction: ...


@overload
def function(
    python_function: None = ...,
    *,
    run_eagerly: bool = ...,
    batch_norm: str | None = ...,
    draws: str | None = ...,
    check: bool | None = ...,
    lanes: int | None = ...,
    **of_tensorflow: Any,
) -> Callable[[Callable[..., Any]], StepFunction]: ...


def function(
    python_function: Callable[..., Any] | None = None,
    *,
    run_eagerly: bool = False,
    batch_norm: str | None = None,
    draws: str | None = None,
    check: bool | None = None,
    lanes: int | None = None,
    **of_tensorflow: Any,
) -> Any:
    """Turn a function into a step of a training loop that all ranks compute together. Local.

    For example::

        @tnt.function                      # instead of `@tf.function`
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            accuracy.update_state(y, model(x))
            return loss

    Each call is one step, as `train_on_batch` is: its arguments hold one global batch, of which
    rank r of n computes the rows r, r + n, ...; what it changes and returns is that of the serial
    run. You need not say what the function uses: any number of models, optimizers, losses and
    metrics.

    - Arrays and tensors may change from call to call, also in dictionaries, lists and tuples. Those
      with a row for each sample are a global batch that all ranks have, or come from an element of
      `tnt.data.distribute(dataset)` as they are.
    - Everything else is a constant, the same on all ranks. As in a `tf.function`, a new value makes
      a new graph.

    Inside another step it is a plain function. On one rank it is a `tf.function`.

    Args:
        python_function: The function; it may be a `tf.function` already.
        run_eagerly: Whether it runs as Python code in each step, for example to use `.numpy()`.
        batch_norm: As for `tnt.Model`.
        draws: As for `tnt.Model`.
        check: As for `tnt.Model`.
        lanes: As for `tnt.Model`.
        **of_tensorflow: Options of `tf.function`, such as `input_signature` or `reduce_retracing`.

    Returns:
        The step, to be called by all ranks with the same arguments or their parts; what it returns
        is equal on all of them, tensors with a row for each sample in serial order.

    Raises:
        TypeError: If `tf.function` has no such option.
        ValueError: When it is called, if ranks were given different batches, or an argument may be
            computed from this rank's part of one.
        RuntimeError: When it is called inside a `tf.function`, or if one rank has changed the
            weights by itself.
        tnt_comm.CommError: When it is called, if another rank is lost, late, or in another call.
    """
    inspect.signature(tf.function).bind(**of_tensorflow)
    if python_function is None:
        return functools.partial(
            function,
            run_eagerly=run_eagerly,
            batch_norm=batch_norm,
            draws=draws,
            check=check,
            lanes=lanes,
            **of_tensorflow,
        )
    if lanes is not None:
        set_up_process()
        use_lanes(lanes)
    options = given_options(None, batch_norm, draws, check)
    return StepFunction(python_function, run_eagerly, options, of_tensorflow)


def _known_by_name(python_function: Any) -> list[Any]:
    """Return what a function knows by a name from outside, such as a model whose parts it calls."""
    if not (inspect.isfunction(python_function) or inspect.ismethod(python_function)):
        return []
    names = inspect.getclosurevars(python_function)
    return [*names.nonlocals.values(), *names.globals.values()]


_KINDS = ("train", "test", "predict")


def explain(model: Any) -> None:
    """Print on the master rank what ranks exchange in the steps that have run. Local.

    For each kind of step, a table shows the values that travel in a step, with their sizes and the
    lines of the script that ask for them, and the share of the arithmetic that all ranks repeat.
    Values with the same number of *exchange* travel together. On one rank nothing travels.

    Args:
        model: A model of `tnt.Model`, or a function or method of `tnt.function`.

    Raises:
        TypeError: If it is neither.
        RuntimeError: If none of its steps has run, or none since the model was compiled.
    """
    model = getattr(model, "__func__", model)  # of a method
    if not isinstance(model, (Model, StepFunction)):
        raise TypeError(
            "`tnt.explain` takes a model of `tnt.Model` or a function of `tnt.function`. Received: "
            f"{type(model).__name__}."
        )
    if not is_partitioned():
        print("On one rank nothing is exchanged.")
        return
    tables = [table for steps in _steps_of(model) for table in steps.tables]
    if not tables:
        raise RuntimeError(
            "No step has run yet, or none since `compile`, so there is nothing to explain. Call "
            "`tnt.explain` after `fit`, `evaluate`, `predict` or a call of the function."
        )
    print("\n\n".join(tables))


def _steps_of(model: Any) -> Iterable[Steps]:
    if isinstance(model, StepFunction):
        return model.all_steps
    functions = [getattr(model, f"{kind}_function") for kind in _KINDS]
    return [function.steps for function in functions if function is not None]


@collective_call("should_stop")
def should_stop() -> bool:
    """Return whether a scheduler has asked a rank to end, by SIGTERM, SIGUSR1 or SIGUSR2.

    Collective, with its own message: ask after each step, or after a few. From the first call on,
    these signals no longer end the process for the time of `--grace`, unless the script has its own
    handlers. For example::

        for batch in data:
            train_step(batch)
            if tnt.should_stop():
                checkpoint.save("checkpoint")
                sys.exit(75)  # tells the launcher to run the job again

    `fit` needs no such call: it saves and leaves by itself.

    Returns:
        True on all ranks, from the first call on that follows a signal to one of them.

    Raises:
        tnt_comm.CommError: If another rank is lost, late, or in another call.
    """
    training_requests.listen()
    own = np.array(training_requests.own_requests()[:1], np.uint8)
    if get_size() > 1:
        own = allreduce("signal", own, "max")
    return bool(own[0])
