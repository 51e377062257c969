"""The steps of a distributed model: the user's own, on this rank's part of a global batch."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any

from tnt_keras.collectives.channel import Channel
from tnt_keras.collectives.exchange import ExchangeSequence
from tnt_keras.keras_hooks import private, private_tensorflow
from tnt_keras.keras_hooks.class_swap import MixinBase
from tnt_keras.process.rank import get_rank, get_size
from tnt_keras.step.assignments.checked_assignments import checked_assignments
from tnt_keras.step.context import Step, current_tracing, is_building, step_scope
from tnt_keras.step.data_check import DataCheck
from tnt_keras.step.fused_batch_norm import fused_batch_norm
from tnt_keras.step.increment import combine
from tnt_keras.step.layer_statistics import RuledStates
from tnt_keras.step.local_batch import LocalBatch, split
from tnt_keras.step.losses import corrected_losses, scaled_additional_losses
from tnt_keras.step.optimizer import hooked_optimizers
from tnt_keras.step.own_logs import OwnLogs
from tnt_keras.step.predictions import PredictionGather
from tnt_keras.step.rank_draws import CommonSeeds, Rows, rank_draws
from tnt_keras.step.rules import StepRules
from tnt_keras.step.state import StepState
from tnt_keras.step.synchronized_batch_norm import synchronized_batch_norm


class StepCommunication:
    """What the steps of one model keep between steps: their channels, optimizers and order.

    Attributes:
        optimizers: The compiled optimizer, and others that a step was seen to use.
        variables: What they were seen to change besides weights of the model.
        denominators: Of losses.
        state: Of metrics, statistics and logs.
        predictions: Collects what ranks predict.
        batch_channels: Those of `tnt.gather_batch` and its relatives, by name.
        gradient_functions: What computes their gradients in the graphs of steps.
        own_logs: Of this rank's samples; None until a callback asks for them.
        data_check: Compares what ranks read; None if there never was a need.
        seeds: For random operations that have none; None until ranks have agreed on them.
        probe: What is done if a step's result would not be the serial one, as for `tnt.Model`.
        fuses_batch_norm: Whether batch normalisation is fused, as for `tnt.Model`.
        rules: Of the steps by name, such as "train_step".

    Args:
        probe: As above.
        fuses_batch_norm: As above.
    """

    def __init__(self, probe: str, fuses_batch_norm: bool = False) -> None:
        private.check_version()
        if probe != "off" and get_size() > 1:  # the first step looks else
            private_tensorflow.check_version()
        self.probe = probe
        self.fuses_batch_norm = fuses_batch_norm
        self.optimizers: list[Any] = []
        self.variables: list[Any] = []
        self.denominators = Channel("loss denominators")
        self.state = Channel("metrics and statistics")
        self.predictions = PredictionGather(get_size())
        self.batch_channels: dict[str, Channel] = {}
        self.gradient_functions: list[Any] = []
        self.own_logs: OwnLogs | None = None
        self.data_check: DataCheck | None = None
        self.seeds: CommonSeeds | None = None
        self.rules: dict[str, StepRules] = collections.defaultdict(StepRules)
        self._exchanges: ExchangeSequence | None = None

    def make_data_check(self) -> DataCheck:
        """Return the data check, which the first call makes. Collective the first time."""
        if self.data_check is None:
            self.data_check = DataCheck()
        return self.data_check

    def exchanges(self) -> ExchangeSequence:
        """Return the exchanges of the graph that is being traced. Local.

        With `steps_per_execution` one graph may hold several steps, whose exchanges come one after
        the other.
        """
        if self._exchanges is None or not self._exchanges.is_of_current_graph():
            self._exchanges = ExchangeSequence()
        return self._exchanges

    def add_variable(self, variable: Any) -> None:
        """Add a variable that an optimizer changes to the list, unless it is there. Local."""
        if not any(variable is known for known in self.variables):
            self.variables.append(variable)

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer to the list, unless it is there. Local."""
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)


class DistributedSteps(MixinBase):
    """Mixin for a Keras model: its three steps compute one global batch on all ranks.

    The model's own steps, also those that a user wrote, run on this rank's rows. What they return
    and change is then made global. On one rank they run untouched, but that batch normalisation is
    fused where it is on several ranks.
    """

    _tnt_communication: StepCommunication
    _tnt_preparation: Any
    name: str
    _tnt_signatures_of_others = ("train_step", "test_step", "predict_step")

    def train_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Train on one global batch. Collective.

        Args:
            data: A `tnt_data.MicroBatch`, or a global batch that is the same on all ranks.
            *args: Handed on to the model's own step.
            **kwargs: Likewise.

        Returns:
            Logs of the global batch, equal on all ranks.
        """
        if get_size() == 1:
            with self._tnt_fused_batch_norm():
                return super().train_step(data, *args, **kwargs)
        if is_building():
            # All optimizers are to be known before the first step: their state is broadcast.
            with self._tnt_hooked_optimizers():
                return super().train_step(data, *args, **kwargs)
        rows, step = self._tnt_split(data, "train_step")
        own_logs = self._tnt_communication.own_logs
        state = StepState(self, step, self._tnt_communication.state, True, own_logs)
        checked = checked_assignments(self, rows, step, self._tnt_communication.probe)
        with self._tnt_inside(step, rows), state.watching(), checked:
            logs = super().train_step(rows, *args, **kwargs)
        return state.global_logs(logs)

    def test_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate one global batch. Collective.

        Args:
            data: As for `train_step`.
            *args: As for `train_step`.
            **kwargs: As for `train_step`.

        Returns:
            Logs of the global batch, equal on all ranks.
        """
        if _runs_plain():
            with self._tnt_fused_batch_norm():
                return super().test_step(data, *args, **kwargs)
        rows, step = self._tnt_split(data, "test_step")
        own_logs = self._tnt_communication.own_logs
        state = StepState(self, step, self._tnt_communication.state, False, own_logs)
        with self._tnt_inside(step, rows), state.watching():
            logs = super().test_step(rows, *args, **kwargs)
        return state.global_logs(logs)

    def predict_step(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Predict one global batch. Collective.

        Args:
            data: As for `train_step`.
            *args: As for `train_step`.
            **kwargs: As for `train_step`.

        Returns:
            The predictions for the global batch in its order, on all ranks.
        """
        if _runs_plain():
            return super().predict_step(data, *args, **kwargs)
        if isinstance(data, LocalBatch):  # this rank's own samples: other ranks need not take part
            with rank_draws(get_rank(), Rows(data.data)):
                return super().predict_step(data.data, *args, **kwargs)
        rows, step = self._tnt_split(data, "predict_step")
        ruled = RuledStates(step)
        with self._tnt_inside(step, rows):
            outputs = super().predict_step(rows, *args, **kwargs)
        combine(ruled.increments(), step, self._tnt_communication.state)
        return self._tnt_communication.predictions.gather(outputs, step)

    def _tnt_split(self, data: Any, step_name: str) -> tuple[Any, Step]:
        if not self._tnt_preparation.built_steps:
            raise RuntimeError(
                f"`{step_name}` of the distributed model {self.name!r} was called, but not by a "
                "method of `tnt.Model`, so that ranks have not got the same weights. Call `fit`, "
                "`evaluate`, `predict` or `train_on_batch`; in methods of a class of your own, by "
                "`super().fit(...)`, not by `keras.Model.fit(self, ...)`."
            )
        communication = self._tnt_communication
        rows, step = split(
            data, get_rank(), get_size(), communication.data_check, communication.exchanges()
        )
        step.rules = communication.rules[step_name]
        step.batch_channels = communication.batch_channels
        step.gradient_functions = communication.gradient_functions
        return rows, step

    @contextlib.contextmanager
    def _tnt_inside(self, step: Step, rows: Any) -> Iterator[None]:
        communication = self._tnt_communication
        drawn = Rows(rows, step.num_local, step.num_global, self._tnt_trained_variables)
        with (
            step_scope(step),
            rank_draws(step.rank, drawn, communication.seeds),
            corrected_losses(step, communication.denominators),
            scaled_additional_losses(step),
            synchronized_batch_norm(step),
            self._tnt_fused_batch_norm(),
            self._tnt_hooked_optimizers(),
        ):
            yield

    def _tnt_fused_batch_norm(self) -> contextlib.AbstractContextManager[None]:
        return fused_batch_norm(self._tnt_communication.fuses_batch_norm)

    def _tnt_trained_variables(self) -> list[Any]:
        return [*self.trainable_variables, *self._tnt_communication.variables]

    @contextlib.contextmanager
    def _tnt_hooked_optimizers(self) -> Iterator[None]:
        tracing = current_tracing()
        assert tracing is not None
        try:
            with hooked_optimizers():
                yield
        finally:
            for optimizer in tracing.optimizers:
                self._tnt_communication.add_optimizer(optimizer)
            known = {id(variable) for variable in self.weights}
            for variable in tracing.variables:
                if id(variable) not in known:
                    self._tnt_communication.add_variable(variable)


def keep_own_logs(model: Any) -> OwnLogs:
    """Let the steps of a distributed model keep the logs of this rank's samples. Local.

    The first time, graphs of steps without them are dropped.

    Args:
        model: A distributed model that is compiled.
    """
    communication: StepCommunication = model._tnt_communication
    if communication.own_logs is None:
        communication.own_logs = OwnLogs()
        model.train_function = model.test_function = None
    return communication.own_logs


def _runs_plain() -> bool:
    return get_size() == 1 or is_building()
