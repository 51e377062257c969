"""How far the data of a `fit` were read, and bring those of a new process there."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tnt_keras.keras_hooks.private import begin_next_epoch
from tnt_keras.restart.container import digest_of
from tnt_keras.step.replicas import generator_states, set_generator_states


@dataclasses.dataclass
class Progress:
    """How far a `fit` has come.

    An execution is one call of the function that Keras makes of a step: one step, or several with
    `steps_per_execution`.
    """

    epoch: int = 0  # that runs, or else the next one
    finished: list[int] = dataclasses.field(default_factory=list)  # executions by epoch
    executions: int = 0  # so far in the epoch that runs
    validated: list[int] = dataclasses.field(default_factory=list)  # executions by validation
    stops: bool = False
    logs: Any = None  # of the last step of the epoch that runs
    batch_size: int | None = None  # of the global batch

    @property
    def is_within_epoch(self) -> bool:
        """Whether an epoch has begun and not ended."""
        return self.executions > 0


class Replay:
    """Brings data of a new process to where they were, by beginning and reading epochs anew.

    Each epoch is begun as Keras does, so that shuffles draw their seeds and Python code is called
    as before. Epochs that are over are read only if it makes a difference.
    """

    def __init__(self, reads: bool) -> None:
        self._reads = reads

    def pass_over(self, epochs: Any, finished: Sequence[int], *, resets: bool = False) -> None:
        """Go on by epochs of so many executions; before validations Keras `resets`. Local."""
        for num_executions in finished:
            if resets:
                epochs.reset()
            with epochs.catch_stop_iteration():
                for number, (*_, iterator) in enumerate(epochs):
                    if self._reads:
                        _read(iterator, epochs.steps_per_execution)
                    elif hasattr(iterator, "begin"):  # it draws the order of a `PyDataset`
                        iterator.begin()
                    if number == num_executions:  # by this one Keras has noticed the end
                        raise StopIteration

    def pass_over_beginning(self, epochs: Any, num_executions: int, *, ends: bool) -> None:
        """Let the next epoch begin after some executions, or consist of none. Local."""

        def advance(executions: Iterator[Any]) -> Iterator[Any]:
            for *_, iterator in itertools.islice(executions, num_executions):
                _read(iterator, epochs.steps_per_execution)
            return iter(()) if ends else executions

        begin_next_epoch(epochs, advance)


def replay_drawing_from(states: dict[str, Any], replay: Any) -> set[str]:
    """Replay from the first process's states; return the generators that have moved. Local."""
    set_generator_states(states)
    before = {name: digest_of(state) for name, state in generator_states().items()}
    replay()
    after = generator_states()
    return {name for name in before if digest_of(after[name]) != before[name]}


def _read(iterator: Iterator[Any], num_elements: int) -> None:
    """Take elements from an iterator, or fewer at its end."""
    for _ in range(num_elements):
        if next(iterator, None) is None:
            return
