"""How far the data of a `fit` were read, and bring those of a new process there."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tnt_keras.keras_hooks.private import begin_next_epoch
from tnt_keras.model.backup.plain_values import digest_of
from tnt_keras.step.generators import generator_states, set_generator_states


@dataclasses.dataclass
class Progress:
    """How far a `fit` has come.

    An execution is one call of the function that Keras makes of a step: one step, or several with
    `steps_per_execution`.

    Attributes:
        epoch: The epoch that runs, or else the next one.
        finished: Executions in each epoch that this `fit` has finished.
        executions: Executions so far in the epoch that runs.
        validated: Executions in each validation that has ended.
        stops: Whether the training is to stop.
        logs: Of the last step, if it belongs to the epoch that runs.
        batch_size: Of the global batch, None if it is not known.
    """

    epoch: int = 0
    finished: list[int] = dataclasses.field(default_factory=list)
    executions: int = 0
    validated: list[int] = dataclasses.field(default_factory=list)
    stops: bool = False
    logs: Any = None
    batch_size: int | None = None

    @property
    def is_within_epoch(self) -> bool:
        """Whether an epoch has begun and not ended."""
        return self.executions > 0


class Replay:
    """Brings data of a new process to where they were, by beginning and reading epochs anew.

    Each epoch is begun as Keras does, so that shuffles draw their seeds and Python code is called
    as before. Epochs that are over are read too, unless it makes no difference.

    Args:
        reads: Whether epochs that are over must be read.
    """

    def __init__(self, reads: bool) -> None:
        self._reads = reads

    def pass_over(self, epochs: Any, finished: Sequence[int], *, resets: bool = False) -> None:
        """Go on by whole epochs. Local.

        Args:
            epochs: Keras' iterator over epochs.
            finished: Executions in each of them.
            resets: Whether Keras resets the iterator before each, as it does for validation.
        """
        for num_executions in finished:
            if resets:
                epochs.reset()
            with epochs.catch_stop_iteration():
                for number, (*_, iterator) in enumerate(epochs):
                    if self._reads:
                        _read(iterator, epochs.steps_per_execution)
                    if number == num_executions:  # by this one Keras has noticed the end
                        raise StopIteration

    def pass_over_beginning(self, epochs: Any, num_executions: int, *, ends: bool) -> None:
        """Let the next epoch begin in the middle. Local.

        Args:
            epochs: Keras' iterator over epochs.
            num_executions: How many executions of the epoch are left out.
            ends: Whether all others are left out too.
        """

        def advance(executions: Iterator[Any]) -> Iterator[Any]:
            for *_, iterator in itertools.islice(executions, num_executions):
                _read(iterator, epochs.steps_per_execution)
            return iter(()) if ends else executions

        begin_next_epoch(epochs, advance)


def replay_drawing_from(states: dict[str, Any], replay: Any) -> set[str]:
    """Replay with the random generators that the first process had. Local.

    Returns:
        The names of the generators that the data draw from: these stand now where they are needed.
    """
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
