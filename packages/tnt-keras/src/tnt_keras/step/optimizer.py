"""Hook optimizers, so that they apply the gradients of the global batch.

There is one: a mixin that comes before the class of an optimizer. The compiled optimizer gets it at
`compile`; any other one when a model's step applies it for the first time. For that,
`hooked_optimizers` replaces `apply` of all optimizer classes while a step is traced.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.collectives.channel import Channel
from tnt_keras.keras_hooks.class_swap import MixinBase, add_mixin, plain_class, without_mixins
from tnt_keras.keras_hooks.patch import replaced_in_subclasses
from tnt_keras.keras_hooks.private import built_for
from tnt_keras.step.accumulation import (
    accumulation_for,
    can_accumulate,
    forget,
    warn_if_pending,
)
from tnt_keras.step.context import (
    ScaledLoss,
    Step,
    current_step,
    current_tracing,
)
from tnt_keras.step.gradients import (
    Gradient,
    LocalGradient,
    global_gradients,
    gradient_channel,
    local_gradients,
)
from tnt_keras.step.graph_search import is_computed_from
from tnt_keras.step.variables import name_of

# Not attributes of the optimizers, whose copies and files would contain them.
_channels: weakref.WeakKeyDictionary[Any, Channel] = weakref.WeakKeyDictionary()


class DistributedOptimizer(MixinBase):
    """Mixin for a Keras optimizer: `apply` sees the gradients of the global batch.

    It is put on the outermost optimizer (a `LossScaleOptimizer`, where there is one), so that
    everything that comes after, such as unscaling, clipping, weight decay, moving averages and
    accumulation, works on the reduced gradients as it does in the serial run.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a plain optimizer: `from_config` and copies ask for one of the hooked class."""
        return plain_class(cls)(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Copy and pickle as a plain Keras optimizer. Local."""
        with without_mixins(self):
            return self.__reduce__()

    def save_own_variables(self, store: Any) -> None:
        """Write the state as Keras does. Local, of a state that is equal on all ranks.

        Args:
            store: As in Keras.
        """
        warn_if_pending(self)
        super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """Read the state as Keras does, and forget what this rank has accumulated. Local.

        Args:
            store: As in Keras.
        """
        super().load_own_variables(store)
        forget(self)

    def set_weights(self, weights: Any) -> None:
        """Set the state as Keras does, and forget what this rank has accumulated. Local.

        Args:
            weights: As in Keras.
        """
        super().set_weights(weights)
        forget(self)

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Weight the loss with this rank's share, besides what the optimizer does. Local.

        Keras' own `train_step` calls it before backpropagation.

        Args:
            loss: This rank's mean loss.

        Returns:
            The loss to differentiate.
        """
        loss = super().scale_loss(loss)
        step = current_step()
        return loss if step is None else weighted_loss(self, loss, step)

    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        """Apply the gradients of the global batch. Collective.

        Args:
            grads: Gradients of this rank's mean loss, or of what `scale_loss` made of it.
            trainable_variables: As in Keras.

        Returns:
            What the optimizer returns.

        Raises:
            RuntimeError: Outside of a step, where it is not known which part of
                the global batch a gradient stands for.
        """
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        plain_apply = super().apply
        return self._tnt_apply_reduced(
            lambda reduced: plain_apply(reduced, trainable_variables), grads, trainable_variables
        )

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the gradients of the global batch. Collective, as `apply` is.

        An optimizer with an `apply_gradients` of its own, which clips them, say, sees the reduced
        ones.

        Args:
            grads_and_vars: As in Keras.
            *args: For the optimizer's own method.
            **kwargs: For the optimizer's own method.

        Returns:
            What the optimizer returns.
        """
        plain_apply_gradients = super().apply_gradients
        if not has_own_apply_gradients(plain_class(type(self))):
            return plain_apply_gradients(grads_and_vars)
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        return self._tnt_apply_reduced(
            lambda reduced: plain_apply_gradients(
                zip(reduced, variables, strict=True), *args, **kwargs
            ),
            [gradient for gradient, _ in pairs],
            variables,
        )

    def _tnt_apply_reduced(
        self, apply: Callable[[Sequence[Gradient]], Any], grads: Sequence[Gradient], variables: Any
    ) -> Any:
        tracing = current_tracing()
        if tracing is None:
            raise RuntimeError(
                "The optimizer of a distributed model was called outside of the model's "
                "`train_step`, where the weight of this rank's gradients is not known. In a "
                "training loop of your own, put the step into a function with `@tnt.function`."
            )
        if tracing.is_applying:  # by an optimizer around this one, which has reduced them
            return apply(grads)
        with tracing.applying(self, variables or ()):
            if isinstance(tracing, Step):
                grads = _reduced(self, grads, variables, tracing)
            return apply(grads)


def has_own_apply_gradients(cls: Any) -> bool:
    """Return whether an optimizer's class does not take over Keras' `apply_gradients`. Pure.

    Args:
        cls: Of the optimizer.
    """
    return cls.apply_gradients is not keras.optimizers.Optimizer.apply_gradients


def weighted_loss(optimizer: Any, loss: tf.Tensor, step: Step) -> tf.Tensor:
    """Return a loss that an optimizer has scaled, times the share of the samples. Local.

    Every sample then has the same influence on gradients as in the serial run, so that float16
    overflows, and float8 is scaled, as it is there. In a step that runs eagerly it cannot be seen
    which gradients are those of this loss: there only losses that the optimizer changes are
    weighted, others when their gradients are applied.

    Args:
        optimizer: The optimizer.
        loss: The scaled mean loss of this rank's samples.
        step: The current step.
    """
    if not step.rules.weights_losses or (tf.executing_eagerly() and not _scales(optimizer)):
        return loss
    weight = tf.identity(tf.cast(step.share, loss.dtype))
    step.scaled_losses.append(ScaledLoss(optimizer, weight))
    return loss * weight


def distribute_optimizer(optimizer: Any) -> None:
    """Add the hook to `optimizer` in place; nothing happens if it is there. Local.

    Args:
        optimizer: The outermost optimizer of some variables.

    Raises:
        ValueError: If the user has set `apply` or `apply_gradients` on the object before.
    """
    if not isinstance(optimizer, DistributedOptimizer):
        for name in {"apply", "apply_gradients"} & vars(optimizer).keys():
            raise ValueError(
                f"`{name}` was set on the object of the optimizer {optimizer.name!r}, so that it "
                "would be given the gradients of one rank. Write it in a class, as in `class "
                f"MyOptimizer(keras.optimizers.Adam): def {name}(self, ...): ...`, or set it after "
                "`compile`."
            )
    add_mixin(optimizer, DistributedOptimizer)


@contextlib.contextmanager
def hooked_optimizers() -> Iterator[None]:
    """Add the hook to every Keras optimizer that this thread's step applies in the block. Local.

    A model may have other optimizers than the one given to `compile`: one for the generator and one
    for the discriminator, say, or one that the step itself makes.
    """
    with (
        replaced_method("apply", functools.partial(_hooking, "apply")),
        replaced_method("apply_gradients", functools.partial(_hooking, "apply_gradients")),
    ):
        yield


def _hooking(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        tracing = current_tracing()
        if tracing is None or tracing.is_applying or isinstance(optimizer, DistributedOptimizer):
            return plain(optimizer, *args, **kwargs)  # of another thread, or the hook calls it
        distribute_optimizer(optimizer)
        return getattr(optimizer, name)(*args, **kwargs)

    return method


def replaced_method(
    name: str, replacement: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> contextlib.AbstractContextManager[None]:
    """Return a context in which a method of all Keras optimizer classes is replaced. Local.

    Args:
        name: Of the method.
        replacement: Makes the new method of the one that a class has.
    """
    return replaced_in_subclasses(keras.optimizers.Optimizer, name, replacement)


def _reduced(
    optimizer: Any, grads: Sequence[Gradient], trainable_variables: Any, step: Step
) -> list[Gradient]:
    if trainable_variables is None:
        names = [f"gradient_{index}" for index in range(len(grads))]
    else:
        names = [name_of(variable) for variable in trainable_variables]
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            if gradient is not None and not isinstance(gradient, tf.IndexedSlices):
                # TensorFlow does not always know the shape, but it is the variable's.
                gradient.set_shape(variable.shape)
    is_weighted = come_from_scaled_loss(optimizer, grads, step)
    local = local_gradients(grads, names, step)
    channel = _channels.setdefault(optimizer, gradient_channel())
    if not optimizer.gradient_accumulation_steps:
        return global_gradients(local, is_weighted, step, channel)
    variables = built_for(optimizer) if trainable_variables is None else trainable_variables
    if not _can_accumulate(optimizer, local, variables):
        return global_gradients(local, is_weighted, step, channel)
    accumulation = accumulation_for(optimizer, channel)
    return accumulation.reduce(local, variables, is_weighted, step, optimizer)


def _can_accumulate(
    optimizer: Any, gradients: Sequence[LocalGradient], variables: Sequence[Any]
) -> bool:
    cls: Any = plain_class(type(optimizer))
    has_own_apply = cls.apply is not keras.optimizers.Optimizer.apply
    if has_own_apply or has_own_apply_gradients(cls):
        return False
    return can_accumulate(cls, gradients, variables)


def _scales(optimizer: Any) -> bool:
    """Return whether `scale_loss` changes a loss, in order that float16 can represent gradients."""
    is_dynamic = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return is_dynamic or getattr(optimizer, "loss_scale_factor", None) is not None


def come_from_scaled_loss(optimizer: Any, grads: Sequence[Gradient], step: Step) -> bool:
    """Return whether gradients are those of a loss that was weighted with the share.

    A `train_step` of the user's own may call no `scale_loss`, or that of another optimizer. A graph
    shows it; of a step that runs eagerly it is taken that an optimizer which scales losses gets the
    gradients of such a loss, if there is one. Local.

    Args:
        optimizer: That is given the gradients.
        grads: The gradients.
        step: The current step.
    """
    if not step.scaled_losses or tf.executing_eagerly():
        return bool(step.scaled_losses) and _scales(optimizer)
    weights = {scaled.weight.op for scaled in step.scaled_losses}
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads if g is not None]
    return is_computed_from(values, weights)
