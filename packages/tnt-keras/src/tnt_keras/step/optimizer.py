"""The hook through which gradients of all ranks reach the user's optimizer."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.class_swap import add_mixin, plain_class
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.step.context import Step, current_step, is_building
from tnt_keras.step.gradients import Gradient, GradientExchange

# For type checkers: the methods that `super()` finds are those of the Keras class beside it.
_Base: Any = object


class DistributedOptimizer(_Base):
    """Mixin for a Keras optimizer: `apply` sees the gradients of the global batch.

    It is put on the outermost optimizer (a `LossScaleOptimizer`, where there is one), so that
    everything that comes after, such as unscaling, clipping, weight decay, moving averages and
    accumulation, works on the reduced gradients as it does in the serial run.
    """

    _tnt_exchange: GradientExchange
    _tnt_step_of_scaled_loss: Step | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Asked for by `from_config`. Copies are plain optimizers.
        return plain_class(cls)(*args, **kwargs)

    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Weights the loss with this rank's share, besides what the optimizer does. Local.

        Keras' own `train_step` calls it before backpropagation. Every sample then has the same
        influence on gradients as in the serial run, so that float16 overflows where it does there.

        Args:
            loss: This rank's mean loss.

        Returns:
            The loss to differentiate.
        """
        loss = super().scale_loss(loss)
        step = current_step()
        if step is None:
            return loss
        object.__setattr__(self, "_tnt_step_of_scaled_loss", step)
        return loss * tf.cast(step.share, loss.dtype)

    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        """Applies the gradients of the global batch. Collective.

        Args:
            grads: Gradients of this rank's mean loss, or of what `scale_loss` made of it.
            trainable_variables: As in Keras.

        Returns:
            What the optimizer returns.

        Raises:
            RuntimeError: Outside of the model's `train_step`, where it is not known which part of
                the global batch a gradient stands for.
        """
        _user.get()(self)
        if is_building():
            with _applying():
                return super().apply(grads, trainable_variables)
        step = current_step()
        if step is None:
            raise RuntimeError(
                "The optimizer of a distributed model was called outside of the model's "
                "`train_step`, where the weight of this rank's gradients is not known. Write the "
                "custom step as `train_step` of a `keras.Model` and call `fit` or "
                "`train_on_batch`."
            )
        if trainable_variables is None:
            names = [f"gradient_{index}" for index in range(len(grads))]
        else:
            trainable_variables = list(trainable_variables)
            names = [variable.path for variable in trainable_variables]
            for gradient, variable in zip(grads, trainable_variables, strict=True):
                if gradient is not None and not isinstance(gradient, tf.IndexedSlices):
                    # TensorFlow does not always know the shape, but it is the variable's.
                    gradient.set_shape(variable.shape)
        # A `train_step` of the user's own may well not call `scale_loss`.
        is_weighted = self._tnt_step_of_scaled_loss is step
        weight = step.presence if is_weighted else step.share
        reduced = self._tnt_exchange.exchange(grads, names, weight, step)
        with _applying():
            return super().apply(reduced, trainable_variables)


def distribute_optimizer(optimizer: Any) -> None:
    """Hooks `optimizer` in place; nothing happens if it is hooked. Local.

    Args:
        optimizer: The outermost optimizer of some variables.
    """
    if not isinstance(optimizer, DistributedOptimizer):
        add_mixin(optimizer, DistributedOptimizer)
        # Past Keras' own __setattr__, which would track what it does not know.
        object.__setattr__(optimizer, "_tnt_exchange", GradientExchange())
        object.__setattr__(optimizer, "_tnt_step_of_scaled_loss", None)


@contextlib.contextmanager
def hooked_optimizers(use: Callable[[Any], None]) -> Iterator[None]:
    """Hooks every Keras optimizer that is used inside a with-block.

    A model may have other optimizers than the one given to `compile`: one for the generator and one
    for the discriminator, say.

    Args:
        use: Called with every optimizer that is applied in the block, each time.
    """
    with contextlib.ExitStack() as stack:
        for cls in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
            stack.enter_context(replaced(cls, "apply", _hooking_apply(cls.apply)))
        token = _user.set(use)
        try:
            yield
        finally:
            _user.reset(token)


def _hooking_apply(plain_apply: Callable[..., Any]) -> Callable[..., Any]:
    def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if _is_applying.get():  # the optimizer inside of a hooked one
            return plain_apply(optimizer, grads, trainable_variables)
        distribute_optimizer(optimizer)
        return optimizer.apply(grads, trainable_variables)

    return apply


# Who wants to know which optimizers are applied.
_user: contextvars.ContextVar[Callable[[Any], None]] = contextvars.ContextVar(
    "tnt_optimizer_user", default=lambda optimizer: None
)
_is_applying: contextvars.ContextVar[bool] = contextvars.ContextVar("tnt_applying", default=False)


@contextlib.contextmanager
def _applying() -> Iterator[None]:
    token = _is_applying.set(True)
    try:
        yield
    finally:
        _is_applying.reset(token)
