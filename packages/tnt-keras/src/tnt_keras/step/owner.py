"""What the steps of one model or function have in common, and whose step runs."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from tnt_keras.collectives.step_channels import StepChannels
from tnt_keras.step.batch_forms import BatchForms, Sizes
from tnt_keras.step.data_check import DataCheck
from tnt_keras.step.options import StepOptions


class StepOwner:
    """What the steps of one model or function share, and what ranks hold alike because of them.

    Args:
        options: How steps compute.
        model: The model whose steps they are, None for a function.

    Attributes:
        optimizers: The compiled one, and others that a step was seen to apply.
        variables: What steps were seen to use: `tf.Variable`s, each once.
        are_synchronized: What was given the master's values once, by the identity of its
            `tf.Variable`.
        own_logs: Of this rank's samples; None until a callback asks for them.
        has_other_rows: Whether a batch was seen with parts that have no row for each sample.
        is_synchronized: Whether ranks got the master's weights, and nothing changed them since but
            steps of all ranks.
        num_checks: How often some variables were compared before a single step.
        num_fits: How often `fit` was called.
        sizes_of_former_run: What `sizes_seen` gave in the run that this one continues.
    """

    def __init__(self, options: StepOptions, model: Any = None) -> None:
        self.options = options
        self.model = model
        self.optimizers: list[Any] = []
        self.variables: list[Any] = []
        self.are_synchronized: dict[int, Any] = {}
        self.own_logs: Any = None
        self.has_other_rows = False
        self.is_synchronized = False
        self.num_checks = 0
        self.num_fits = 0
        self.sizes_of_former_run: dict[str, list[Sizes]] = {}
        self._forms: dict[str, BatchForms] = {}
        self._channels: dict[str, StepChannels] = {}
        self._data_check: DataCheck | None = None

    def data_check(self) -> DataCheck:
        """Return the data check, which the first call makes. Collective the first time."""
        if self._data_check is None:
            self._data_check = DataCheck()
        return self._data_check

    def new_forms(self, kind: str) -> BatchForms:
        """Return the forms of batches of one kind, as a former run has left them. Local."""
        self._forms[kind] = BatchForms(self.sizes_of_former_run.get(kind, ()))
        return self._forms[kind]

    def sizes_seen(self) -> dict[str, list[Sizes]]:
        """Return the sizes of the batches for which forms were chosen, by their kind. Local."""
        seen = {kind: forms.seen for kind, forms in self._forms.items()}
        return self.sizes_of_former_run | seen

    def channels(self, name: str) -> StepChannels:
        """Return what all graphs of a step exchange by. Local."""
        if name not in self._channels:
            self._channels[name] = StepChannels(name)
        return self._channels[name]

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer to the list, unless it is there. Local."""
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)

    def add_variables(self, variables: Any) -> None:
        """Add variables to the list, unless they are there. Local."""
        known = {id(variable) for variable in self.variables}
        self.variables += [variable for variable in variables if id(variable) not in known]


_current: contextvars.ContextVar[StepOwner | None] = contextvars.ContextVar(
    "tnt_step", default=None
)


def current_owner() -> StepOwner | None:
    """Return the owner of the step that this thread traces or runs, None outside of one. Local."""
    return _current.get()


def is_inside_step() -> bool:
    """Return whether this thread traces or runs a step of all ranks. Local."""
    return _current.get() is not None


@contextlib.contextmanager
def step_scope(owner: StepOwner) -> Iterator[None]:
    """Take what runs in a with-block for a step of all ranks. Local."""
    token = _current.set(owner)
    try:
        yield
    finally:
        _current.reset(token)
