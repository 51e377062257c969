"""What a user is told of a step: a line when it runs first, warnings, and a table on demand."""

from __future__ import annotations

import dataclasses

from tnt_keras.partition import Explanation
from tnt_keras.process.environment import settings
from tnt_keras.process.output import logger
from tnt_keras.process.rank import get_size, is_master_rank
from tnt_keras.step.batch_norm_region import Normalisations

_LEAST_SAMPLES = 16  # fewer give statistics that are too noisy to train with


@dataclasses.dataclass(frozen=True)
class StepReport:
    """What there is to say of one kind of step."""

    title: str  # "train_step on 4 ranks"
    explanation: Explanation
    is_cut: bool  # else all ranks compute the whole batch
    num_own_draws: int = 0  # draws with other numbers than in the serial run

    @property
    def line(self) -> str:
        """What is exchanged, in one line."""
        if self.is_cut:
            own = self.num_own_draws
            draws = f"; {own} random draw{'s' if own > 1 else ''} of each rank's own" if own else ""
            return f"{self.title}: {self.explanation.summary}{draws}"
        return f"{self.title}: all ranks compute the whole batch, gathered before the step"

    @property
    def table(self) -> str:
        """The line, and a table with a line for each value that is exchanged."""
        return f"{self.line}\n\n{self.explanation.table()}" if self.is_cut else self.line

    def announce(self, normalisations: Normalisations, num_rows: int) -> None:
        """Log the line and what makes the step slow or not serial; print the table. Local."""
        logger.info("%s", self.line)
        if settings().explains_steps and is_master_rank():
            print(self.table, flush=True)
        if self.is_cut:
            for warning in self.explanation.warnings():
                logger.warning("%s: %s", self.title, warning)
            _announce_normalisations(normalisations, num_rows)


def _announce_normalisations(normalisations: Normalisations, num_rows: int) -> None:
    num_local, num_whole = len(normalisations.local), len(normalisations.whole)
    if num_whole:
        logger.info("%s the rows of the whole batch, as on one rank", _layers(num_whole))
    if not num_local:
        return
    logger.info(
        '%s each rank\'s rows, as DDP and Horovod do; batch_norm="global" gives the serial result',
        _layers(num_local),
    )
    if num_rows < _LEAST_SAMPLES * get_size():
        logger.warning(
            "The model uses batch normalisation, whose statistics are those of each rank's "
            "micro-batch: %d samples of %d on %d ranks. Below %d samples per rank training may "
            "suffer: give the layers `synchronized=True`, which takes those of the whole batch, or "
            "use a larger batch or fewer ranks.",
            num_rows // get_size(),
            num_rows,
            get_size(),
            _LEAST_SAMPLES,
        )


def _layers(count: int) -> str:
    return "1 batch normalisation uses" if count == 1 else f"{count} batch normalisations use"
