"""Take part in one `fit`: continue it from the last backup, and write the next ones.

The data of a new process are brought to where they were by beginning and reading epochs anew. Each
epoch is begun as Keras does, so that shuffles draw their seeds and Python code is called as before.
Epochs that are over are read only if it makes a difference.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from tnt_keras.callbacks.ranks import unwrapped
from tnt_keras.callbacks.select import as_list, refuse_own_list
from tnt_keras.inputs.distributed_input import DistributedInput
from tnt_keras.keras_hooks import private
from tnt_keras.process import training_requests
from tnt_keras.process.rank import get_rank, logger
from tnt_keras.restart.backup_files import BackupFiles, digest_of, is_plain
from tnt_keras.restart.training_state import Progress, SavedState, TrainingState, restore_variables
from tnt_keras.step.replicas import generator_states, set_generator_states


def backup_of(model: Any, callbacks: Any) -> FitBackup | None:
    """Return the backup that a `BackupAndRestore` among callbacks asks for, if any. Local."""
    given = as_list(callbacks)
    asking = [
        each for each in map(unwrapped, given) if isinstance(each, keras.callbacks.BackupAndRestore)
    ]
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


_taking_part: list[FitBackup] = []


def save_now() -> None:
    """Let the running `fit` write its backup at the end of this step, on all ranks. Local.

    A single rank may call it, in a callback, a thread, or a signal handler. During validation, the
    backup is written at the end of the epoch.

    Raises:
        RuntimeError: If no `fit` with a `keras.callbacks.BackupAndRestore` is running.
    """
    if not _taking_part:
        raise RuntimeError(
            "`tnt.save_now()` needs a running `fit` with a `keras.callbacks.BackupAndRestore` "
            "among its callbacks, which says where to write the backup."
        )
    training_requests.request_backup()


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
        self._reads_training = self._reads_testing = True  # also epochs that are over
        self._lives_on = self._is_of_this_process = False
        self._state: TrainingState | None = None
        self._saved: SavedState | None = None  # until everything is restored
        self._batch_size: int | None = None
        self._validated: list[int] = []  # validations that the new data have not seen
        self._epochs: Any = None
        self._is_due = False

    @property
    def folder(self) -> str:
        """Where the backup is."""
        return os.fspath(self._callback.backup_dir)

    @contextlib.contextmanager
    def taking_part(self) -> Iterator[None]:
        """Read the last backup, from which a `fit` in the block goes on. Collective."""
        self._files.prepare()
        found = self._files.read()
        if found is not None:
            self._saved = SavedState.of_backup(found)
            self._check_same_fit(self._saved)
            logger.info("The training continues from the backup in %s.", self._callback.backup_dir)
        note_epochs = functools.partial(setattr, self, "_epochs")
        note_due = functools.partial(setattr, self, "_is_due", True)
        with (
            private.noticed_epochs(self._model, note_epochs, self._replay_validation),
            private.replaced_epoch_logs(self._model, self._logs_of_last_step),
            private.replaced_backup(self._callback, note_due),
        ):
            _taking_part.append(self)
            try:
                yield
            finally:
                _taking_part.remove(self)

    def begin(
        self, training: DistributedInput, testing: DistributedInput | None, *, lives_on: bool
    ) -> None:
        """Take this rank's data of the `fit`; their batches must be of the backup's size. Local.

        `lives_on`: the training data are an object that goes on from one `fit` to the next.
        """
        now, before = training.batch_size, self._saved and self._saved.progress.batch_size
        if None not in (now, before) and now != before:
            raise ValueError(
                f"The backup in {self._callback.backup_dir} is from a training with batches of "
                f"{before} samples, but they have {now} now, so the steps differ. Pass `fit` the "
                "same batches to continue the run, or remove the backup."
            )
        self._batch_size, self._lives_on = now, lives_on
        self._reads_training = not training.epochs_are_independent
        self._reads_testing = testing is None or not testing.epochs_are_independent
        if training.irreproducible:
            logger.warning(
                "Rank %d: a run continued from a backup sees different samples than an "
                "uninterrupted one, since %s. Give everything that is random a seed. "
                "[unseeded-restart]",
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
                "There is nothing to train, and the backup in %s is kept: it is from epoch %d, "
                "and `fit` ends after epoch %d. [nothing-to-train]",
                self._callback.backup_dir,
                self.progress.epoch + self.progress.is_within_epoch,
                epochs,
            )
        return self.progress.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore everything, whatever the other callbacks have set, and the data. Local."""
        given = map(unwrapped, self.callbacks)
        stateful = [one for one in given if not isinstance(one, keras.callbacks.ProgbarLogger)]
        fit_number = self._model._tnt_owner.num_fits - 1
        self._state = TrainingState(self._model, stateful, fit_number)
        if self._saved is None:
            return
        self._state.first_generators = self._saved.first_generators
        drawn_from = self._replay_training(self._saved.first_generators)
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
        self.progress.validated.append(0)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count steps of the validation. Local."""
        self.progress.validated[-1] += 1

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
        optimizer = self._model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self._model.trainable_variables)
        if self._saved is not None:
            restore_variables(self._model, self._saved)

    def _restore(self) -> None:
        assert self._saved is not None
        assert self._state is not None
        restore_variables(self._model, self._saved)
        self._state.restore_callbacks(self._saved)

    def _write_if_due(self) -> None:
        if training_requests.takes_backup():
            self._is_due = True
        if self._is_due and self._state is not None:
            self._is_due = False
            self.progress.stops = bool(self._model.stop_training)
            self._files.write(self._state.save(self.progress))

    def _replay_training(self, states: dict[str, Any]) -> set[str]:
        """Replay from the first process's states; return the generators that have moved."""
        set_generator_states(states)
        before = {name: digest_of(state) for name, state in generator_states().items()}
        if not (self._is_of_this_process and self._lives_on):
            _pass_over(self._epochs, self.progress.finished, reads=self._reads_training)
        elif self.progress.is_within_epoch:
            logger.warning(
                "Rank %d: this process has read from the dataset or generator since the backup, "
                "and continues from there: samples may be used twice or not at all in epoch %d. "
                "To get the results of an uninterrupted run, start the script again. "
                "[data-already-read]",
                get_rank(),
                self.progress.epoch + 1,
            )
        if self.progress.is_within_epoch:
            private.begin_next_epoch(self._epochs, self._pass_over_beginning)
        after = generator_states()
        return {name for name in before if digest_of(after[name]) != before[name]}

    def _pass_over_beginning(self, executions: Iterator[Any]) -> Iterator[Any]:
        """Return what is left of the epoch that runs, nothing if training stops in it."""
        for *_, iterator in itertools.islice(executions, self.progress.executions):
            _read(iterator, self._epochs.steps_per_execution)
        return iter(()) if self.progress.stops else executions

    def _replay_validation(self, epochs: Any) -> None:
        validated, self._validated = self._validated, []
        if validated:
            states = generator_states()
            _pass_over(epochs, validated, reads=self._reads_testing, resets=True)
            set_generator_states(states)

    def _logs_of_last_step(self, logs: Any) -> Any:
        kept, self.progress.logs = self.progress.logs, None
        return kept if kept is not None and isinstance(logs, dict) and not logs else logs

    def _check_same_fit(self, saved: SavedState) -> None:
        owner, folder = self._model._tnt_owner, self._callback.backup_dir
        if owner.num_fits < saved.fit_number:
            raise ValueError(
                f"The backup in {folder} is from call number {saved.fit_number + 1} of `fit` of "
                f"this model, but this is call number {owner.num_fits + 1}. Give each `fit` its "
                "own `backup_dir`, with delete_checkpoint=False for all but the last, so "
                "finished ones are not run again."
            )
        if saved.steps_per_execution != self._model.steps_per_execution:
            raise ValueError(
                f"The backup in {folder} is from a model with "
                f"steps_per_execution={saved.steps_per_execution}, but it is "
                f"{self._model.steps_per_execution} now. Compile the model as before to continue "
                "the run, or remove the backup."
            )
        self._is_of_this_process = owner.num_fits > saved.fit_number
        owner.num_fits = saved.fit_number  # orders of data are drawn by it


def _pass_over(epochs: Any, finished: Sequence[int], *, reads: bool, resets: bool = False) -> None:
    """Go on by epochs of so many executions; before validations Keras `resets`."""
    for num_executions in finished:
        if resets:
            epochs.reset()
        with epochs.catch_stop_iteration():
            for number, (*_, iterator) in enumerate(epochs):
                if reads:
                    _read(iterator, epochs.steps_per_execution)
                elif hasattr(iterator, "begin"):  # it draws the order of a `PyDataset`
                    iterator.begin()
                if number == num_executions:  # by this one Keras has noticed the end
                    raise StopIteration


def _read(iterator: Iterator[Any], num_elements: int) -> None:
    """Take elements from an iterator, or fewer at its end."""
    for _ in range(num_elements):
        if next(iterator, None) is None:
            return
