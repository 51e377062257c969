"""What the steps of one model or function have in common, how they compute, and whose step runs."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from tnt_keras.calls.current_call import Scoped
from tnt_keras.exchange.channels import StepChannels
from tnt_keras.process.environment import settings
from tnt_keras.step.data_check import DataCheck
from tnt_keras.step.signature import BatchForms, Sizes

BATCH_NORMS = ("local", "global")
DRAWS = ("serial", "local")


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How steps compute, as for `tnt.Model`."""

    fuses_batch_norm: bool = True
    batch_norm: str = "local"
    draws: str = "serial"
    check: bool = False


def default_options(**given: Any) -> StepOptions:
    """Return the options where some are given. Local."""
    return StepOptions(**{"check": settings().checks_steps, **given})


def given_options(
    fused_batch_norm: bool | None, batch_norm: str | None, draws: str | None, check: bool | None
) -> dict[str, Any]:
    """Return the attributes of `StepOptions` that a user has given, of words that exist. Local."""
    for name, value, words in (("batch_norm", batch_norm, BATCH_NORMS), ("draws", draws, DRAWS)):
        if value is not None and value not in words:
            raise ValueError(
                f"`{name}` must be one of {', '.join(words)}. Received: {name}={value!r}."
            )
    given = {
        "fuses_batch_norm": fused_batch_norm,
        "batch_norm": batch_norm,
        "draws": draws,
        "check": check,
    }
    return {name: value for name, value in given.items() if value is not None}


class StepOwner:
    """What the steps of one model or function share, and what ranks hold alike because of them."""

    def __init__(self, options: StepOptions, model: Any = None) -> None:
        self.options = options
        self.model = model  # None for a function
        self.optimizers: list[Any] = []  # the compiled one, and those seen in steps
        self.variables: list[Any] = []  # `tf.Variable`s that steps were seen to use
        self.are_synchronized: dict[int, Any] = {}  # by the identity of the `tf.Variable`
        self.own_logs: Any = None  # of this rank's samples, if asked for
        self.has_other_rows = False  # a batch had parts without a row for each sample
        self.is_synchronized = False  # with the master, then only changed by all ranks' steps
        self.num_checks = 0  # of some variables, before single steps
        self.num_fits = 0  # calls of `fit`
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


_current: Scoped[StepOwner] = Scoped("tnt_step")


def current_owner() -> StepOwner | None:
    """Return the owner of the step that this thread traces or runs, None outside of one. Local."""
    return _current.get()


def is_inside_step() -> bool:
    """Return whether this thread traces or runs a step of all ranks. Local."""
    return _current.get() is not None


def step_scope(owner: StepOwner) -> contextlib.AbstractContextManager[None]:
    """Take what runs in a with-block for a step of all ranks. Local."""
    return _current.holding(owner)
