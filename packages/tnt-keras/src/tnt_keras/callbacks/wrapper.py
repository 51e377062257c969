"""`tnt.callbacks.Callback`: say on which ranks a callback runs, and which logs it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tnt_keras.calls.current_call import on_one_rank
from tnt_keras.process.rank import get_size, is_master_rank

_DECIDING = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.SwapEMAWeights,
    keras.callbacks.TerminateOnNaN,
)
"""They change the training or its end, which must be done alike on all ranks."""
_VALIDATION = "val_"
_HOOKS = tuple(
    f"on_{phase}_{point}" for phase in ("train", "test", "predict") for point in ("begin", "end")
)
_HOOKS_OF_A_NUMBER = tuple(
    f"on_{phase}_{point}"
    for phase in ("epoch", "batch", "train_batch", "test_batch", "predict_batch")
    for point in ("begin", "end")
)
"""They are given the number of an epoch or batch, too."""


class Callback(keras.callbacks.Callback):
    """Run a Keras callback on all ranks or on the master alone, with global logs or the rank's own.

        tnt.callbacks.Callback(TimeHistory(), aggregate_logs=False, run_on_all_ranks=False)

    Callbacks that are not wrapped run on all ranks with global logs, but for those that only write;
    see the page on callbacks. With its defaults this class changes nothing of that, except that a
    `keras.callbacks.TensorBoard` writes on all ranks.

    A callback that runs on the master alone may save the model, which writes without the other
    ranks; it cannot evaluate or predict with it.

    Args:
        callback: Any callback of Keras or of one's own.
        aggregate_logs: Whether logs are those of the samples of all ranks. If not, they are those
            of the samples that this rank has computed since the metrics were reset. Values that
            cannot be told apart by rank stay global: of metrics whose state is no sum over samples.
        run_on_all_ranks: Whether every rank runs it; else the master does.

    Attributes:
        callback: As given.
        aggregate_logs: As given.
        run_on_all_ranks: As given.

    Raises:
        TypeError: If `callback` is no callback.
        ValueError: If it is wrapped already, or would decide on the training of all ranks with what
            one rank knows.
    """

    def __init__(
        self,
        callback: keras.callbacks.Callback,
        aggregate_logs: bool = True,
        run_on_all_ranks: bool = True,
    ) -> None:
        super().__init__()
        _check(callback, aggregate_logs, run_on_all_ranks)
        self.callback = callback
        self.aggregate_logs = aggregate_logs
        self.run_on_all_ranks = run_on_all_ranks
        self._validation: dict[str, Any] = {}  # logs of this rank's samples

    def set_model(self, model: keras.Model) -> None:
        """Give the callback the model, if it runs on this rank. Local.

        Args:
            model: The model.
        """
        super().set_model(model)
        self._run(lambda: self.callback.set_model(model))

    def set_params(self, params: dict[str, Any]) -> None:
        """Give the callback the parameters of the call, if it runs on this rank. Local.

        Args:
            params: As in Keras.
        """
        super().set_params(params)
        self._run(lambda: self.callback.set_params(params))

    def _run(self, call: Callable[[], None]) -> None:
        if self.run_on_all_ranks:
            call()
        elif is_master_rank():
            with on_one_rank.holding(type(self.callback).__name__):
                call()

    def _logs(self, hook: str, logs: Any) -> Any:
        """Return the logs that the callback gets in a hook."""
        owner = getattr(self.model, "_tnt_owner", None)
        if (
            self.aggregate_logs
            or get_size() == 1
            or owner is None  # a model of Keras, whose logs are of one rank
            or owner.own_logs is None
            or not isinstance(logs, dict)
            or hook.startswith("on_predict")
        ):
            return logs
        if hook.startswith("on_test"):
            own: dict[str, Any] = owner.own_logs.replace(logs, "test_step")
            self._validation = {f"{_VALIDATION}{key}": value for key, value in own.items()}
            return own
        # Another callback may have evaluated since the validation.
        own_validation = {key: self._validation[key] for key in logs if key in self._validation}
        return owner.own_logs.replace(logs, "train_step") | own_validation


def _check(callback: Any, aggregate_logs: bool, run_on_all_ranks: bool) -> None:
    if not isinstance(callback, keras.callbacks.Callback):
        raise TypeError(
            f"`callback` must be a `keras.callbacks.Callback`. Received: {type(callback).__name__}."
        )
    name = type(callback).__name__
    if isinstance(callback, Callback):
        raise ValueError(
            "`callback` is a `tnt.callbacks.Callback` already. Wrap the callback of Keras once."
        )
    if isinstance(callback, _DECIDING) and not run_on_all_ranks:
        raise ValueError(
            f"{name} must run on all ranks, since it decides on the training of all of them. Leave "
            "run_on_all_ranks=False out."
        )
    decides = isinstance(callback, _DECIDING)
    saves = isinstance(callback, keras.callbacks.ModelCheckpoint) and run_on_all_ranks
    if (decides or saves) and not aggregate_logs:
        raise ValueError(
            f"{name} must see the logs of all ranks, since all ranks must decide alike. Leave "
            "aggregate_logs=False out."
        )


def _hook(name: str) -> Callable[..., None]:
    def run(self: Callback, logs: Any = None) -> None:
        self._run(lambda: getattr(self.callback, name)(self._logs(name, logs)))

    run.__doc__ = f"Call `{name}` of the callback, if it runs on this rank. Local."
    return run


def _hook_of_a_number(name: str) -> Callable[..., None]:
    # Keras gives the logs by position at epochs, and by their name at batches.
    by_name = "batch" in name

    def run(self: Callback, number: int, logs: Any = None) -> None:
        hook, own = getattr(self.callback, name), self._logs(name, logs)
        self._run(lambda: hook(number, logs=own) if by_name else hook(number, own))

    run.__doc__ = f"Call `{name}` of the callback, if it runs on this rank. Local."
    return run


for _name in _HOOKS:
    setattr(Callback, _name, _hook(_name))
for _name in _HOOKS_OF_A_NUMBER:
    setattr(Callback, _name, _hook_of_a_number(_name))
