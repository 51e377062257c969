"""Take part in one `fit`: continue it from the last backup, and write the next ones."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import keras

from tnt_keras.callbacks.ranks import Callback
from tnt_keras.callbacks.select import as_list, refuse_own_list
from tnt_keras.inputs.distributed_input import DistributedInput
from tnt_keras.keras_hooks.private import noticed_epochs, replaced_backup, replaced_epoch_logs
from tnt_keras.process.output import logger
from tnt_keras.process.rank import get_rank
from tnt_keras.restart.backup_files import BackupFiles
from tnt_keras.restart.container import is_plain
from tnt_keras.restart.position import Progress, Replay, replay_drawing_from
from tnt_keras.restart.training_state import (
    SavedState,
    TrainingState,
    build_optimizer,
    restore_variables,
)
from tnt_keras.step.generators import generator_states, set_generator_states

_BackupAndRestore = keras.callbacks.BackupAndRestore


def backup_of(model: Any, callbacks: Any) -> FitBackup | None:
    """Return the backup that a `BackupAndRestore` among callbacks asks for, if any. Local."""
    given = as_list(callbacks)
    asking = [each for each in map(_unwrapped, given) if isinstance(each, _BackupAndRestore)]
    if not asking:
        return None
    refuse_own_list(callbacks)
    if len(asking) > 1:
        raise ValueError(
            "Pass one `BackupAndRestore` to `fit`: two would restore different states."
        )
    if not any(isinstance(each, keras.callbacks.History) for each in given):
        given.append(keras.callbacks.History())
    return FitBackup(model, asking[0], given)


class FitBackup(keras.callbacks.Callback):
    """The backup of one `fit`, in which it takes part as the last of all callbacks.

    `callback` says when one is due; `callbacks` are those whose state it holds. `restoring` comes
    as the first of all callbacks, so that others see the variables of the backup.
    """

    def __init__(
        self,
        model: Any,
        callback: keras.callbacks.BackupAndRestore,
        callbacks: list[keras.callbacks.Callback],
    ) -> None:
        super().__init__()
        self.callbacks, self.progress = callbacks, Progress()
        self.restoring = keras.callbacks.LambdaCallback(on_train_begin=self._restore_variables)
        self._model, self._callback = model, callback
        self._files = BackupFiles(callback.backup_dir, callback.double_checkpoint)
        self._deletes = callback.delete_checkpoint
        self._training, self._testing, self._lives_on = Replay(True), Replay(True), False
        self._state: TrainingState | None = None
        self._saved: SavedState | None = None  # until everything is restored
        self._is_of_this_process = False
        self._batch_size: int | None = None
        self._validated: list[int] = []  # validations that the new data have not seen
        self._epochs: Any = None
        self._is_due = False
        self._num_test_executions = 0

    @contextlib.contextmanager
    def taking_part(self) -> Iterator[None]:
        """Read the last backup, from which a `fit` in the block goes on. Collective."""
        self._files.prepare()
        found = self._files.read()
        if found is not None:
            self._saved = SavedState.of_backup(found)
            self._check_same_fit(self._saved)
            logger.info("The training goes on from the backup in %s.", self._callback.backup_dir)
        with (
            noticed_epochs(self._model, self._notice_epochs, self._replay_validation),
            replaced_epoch_logs(self._model, self._logs_of_last_step),
            replaced_backup(self._callback, self._note_due),
        ):
            yield

    def begin(
        self, training: DistributedInput, testing: DistributedInput | None, *, lives_on: bool
    ) -> None:
        """Take this rank's data of the `fit`; their batches must be of the backup's size. Local.

        `lives_on`: the training data are an object that goes on from one `fit` to the next.
        """
        now, before = training.batch_size, self._saved and self._saved.progress.batch_size
        if None not in (now, before) and now != before:
            raise ValueError(
                f"The backup in {self._callback.backup_dir} is of a training with batches of "
                f"{before} samples, but they have {now} now, so that its steps are others. Give "
                "`fit` the same batches to continue the run, or remove the backup."
            )
        self._batch_size = now
        self._training = Replay(not training.epochs_are_independent)
        self._testing = Replay(testing is None or not testing.epochs_are_independent)
        self._lives_on = lives_on
        if training.irreproducible:
            logger.warning(
                "Rank %d: a run that is continued from a backup sees other samples than one that "
                "is not interrupted, since %s. Give all that is random a seed.",
                get_rank(),
                "; ".join(training.irreproducible),
            )

    def first_epoch(self, initial_epoch: int, epochs: int) -> int:
        """Return the epoch with which `fit` is to begin. Local."""
        if self._saved is None:
            self.progress = Progress(initial_epoch, batch_size=self._batch_size)
            return initial_epoch
        self.progress = copy.deepcopy(self._saved.progress)
        self._validated = list(self.progress.validated)
        if self.progress.stops and not self.progress.is_within_epoch:
            return epochs
        if (self.progress.epoch, self.progress.executions) > (epochs, 0):
            self._deletes = False
            logger.warning(
                "Nothing is trained, and the backup in %s is kept: it is from epoch %d, and `fit` "
                "is to end after epoch %d.",
                self._callback.backup_dir,
                self.progress.epoch + self.progress.is_within_epoch,
                epochs,
            )
        return self.progress.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore everything, whatever the other callbacks have set, and the data. Local."""
        given = map(_unwrapped, self.callbacks)
        stateful = [one for one in given if not isinstance(one, keras.callbacks.ProgbarLogger)]
        fit_number = self._model._tnt_owner.num_fits - 1
        self._state = TrainingState(self._model, stateful, fit_number)
        if self._saved is None:
            return
        self._state.first_generators = self._saved.first_generators
        drawn_from = replay_drawing_from(self._saved.first_generators, self._replay_training)
        now = self._saved.generators
        set_generator_states({name: now[name] for name in now if name not in drawn_from})
        self._restore()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Undo what the begin of an epoch does that had begun before the backup. Local."""
        if self._saved is None:
            return
        if self.progress.is_within_epoch:
            self._restore()
            self._model.stop_training = self.progress.stops
        self._saved = None  # frees its memory

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count steps, and write a backup if one is due. Collective."""
        self.progress.executions += 1
        self.progress.logs = logs if is_plain(logs) else None
        self._write_if_due()

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin to count the steps of a validation. Local."""
        self._num_test_executions = 0

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count steps of the validation. Local."""
        self._num_test_executions += 1

    def on_test_end(self, logs: Any = None) -> None:
        """Count the validation. Local."""
        self.progress.validated.append(self._num_test_executions)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count an epoch, and write a backup if one is due. Collective."""
        self.progress.finished.append(self.progress.executions)
        self.progress.epoch, self.progress.executions = epoch + 1, 0
        self._write_if_due()

    def on_train_end(self, logs: Any = None) -> None:
        """Delete the backups if the user wants it, since the training is over. Collective."""
        self._write_if_due()
        if self._deletes:
            self._files.delete()

    def _restore_variables(self, logs: Any = None) -> None:
        build_optimizer(self._model)
        if self._saved is not None:
            restore_variables(self._model, self._saved)

    def _note_due(self) -> None:
        self._is_due = True

    def _write_if_due(self) -> None:
        if self._is_due and self._state is not None:
            self._is_due = False
            self.progress.stops = bool(self._model.stop_training)
            self._files.write(self._state.save(self.progress))

    def _restore(self) -> None:
        assert self._saved is not None
        assert self._state is not None
        restore_variables(self._model, self._saved)
        self._state.restore_callbacks(self._saved)

    def _notice_epochs(self, epochs: Any) -> None:
        self._epochs = epochs

    def _replay_training(self) -> None:
        if not (self._is_of_this_process and self._lives_on):
            self._training.pass_over(self._epochs, self.progress.finished)
        elif self.progress.is_within_epoch:
            logger.warning(
                "Rank %d: this process has read from the dataset or generator since the backup, "
                "and goes on from there, so that samples may be used twice or not at all in epoch "
                "%d. Start the script anew for the results of a run that is not interrupted.",
                get_rank(),
                self.progress.epoch + 1,
            )
        if self.progress.is_within_epoch:
            self._training.pass_over_beginning(
                self._epochs, self.progress.executions, ends=self.progress.stops
            )

    def _replay_validation(self, epochs: Any) -> None:
        validated, self._validated = self._validated, []
        if validated:
            states = generator_states()
            self._testing.pass_over(epochs, validated, resets=True)
            set_generator_states(states)

    def _logs_of_last_step(self, logs: Any) -> Any:
        kept, self.progress.logs = self.progress.logs, None
        return kept if kept is not None and isinstance(logs, dict) and not logs else logs

    def _check_same_fit(self, saved: SavedState) -> None:
        owner, folder = self._model._tnt_owner, self._callback.backup_dir
        if owner.num_fits < saved.fit_number:
            raise ValueError(
                f"The backup in {folder} is of call number {saved.fit_number + 1} of `fit` of this "
                f"model, but this is call number {owner.num_fits + 1}. Give each `fit` a "
                "`backup_dir` of its own, with delete_checkpoint=False for all but the last, so "
                "that those which are over are not run again."
            )
        if saved.steps_per_execution != self._model.steps_per_execution:
            raise ValueError(
                f"The backup in {folder} is of a model with steps_per_execution="
                f"{saved.steps_per_execution}, but it is {self._model.steps_per_execution} now. "
                "Compile the model as before to continue the run, or remove the backup."
            )
        self._is_of_this_process = owner.num_fits > saved.fit_number
        owner.num_fits = saved.fit_number  # orders of data are drawn by it


def _unwrapped(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
    return callback.callback if isinstance(callback, Callback) else callback
