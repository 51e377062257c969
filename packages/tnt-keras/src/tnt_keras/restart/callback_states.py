"""What a run has changed in callbacks, such as how long `EarlyStopping` has waited."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.callbacks.writers import is_writer
from tnt_keras.process.output import logger
from tnt_keras.restart.container import (
    NotPlainError,
    digest_of,
    is_plain,
    is_variable,
    packed,
    unpacked,
)

_GET, _SET = "get_backup_state", "set_backup_state"


class CallbackState:
    """What changes in one callback from the begin of training on. Creation and methods are local.

    It is what `get_backup_state()` of the callback returns, and `set_backup_state(state)` is given,
    if it has these methods; otherwise every attribute whose value is another one than after
    `on_train_begin`. Others, such as `patience`, are those of the script also after a restart.
    """

    def __init__(self, callback: keras.callbacks.Callback) -> None:
        self.class_name = type(callback).__qualname__
        self._callback = callback
        self._has_methods = all(callable(getattr(callback, name, None)) for name in (_GET, _SET))
        attributes = {} if self._has_methods else vars(callback)
        self._first = {name: digest_of(value) for name, value in attributes.items()}
        self._named: set[str] = set()  # attributes that a warning has named

    def save(self) -> bytes:
        """Return what has changed."""
        state = getattr(self._callback, _GET)() if self._has_methods else self._changed()
        try:
            return packed((self.class_name, state))
        except NotPlainError as error:
            raise TypeError(
                f"{self.class_name}.{_GET}() must return None, numbers, texts, arrays, "
                f"or lists, tuples, sets and dicts of these. There is a {error} in it."
            ) from None

    def fits(self, saved: bytes) -> bool:
        """Return whether a state is that of a callback of the same class."""
        return bool(unpacked(saved)[0] == self.class_name)

    def restore(self, saved: bytes) -> None:
        """Give the callback what `save` has returned in another process."""
        _, state = unpacked(saved)
        if self._has_methods:
            getattr(self._callback, _SET)(state)
        else:
            for name, value in state.items():
                self._set(name, value)

    def _changed(self) -> dict[str, Any]:
        changed = {
            name: value
            for name, value in vars(self._callback).items()
            if name not in self._first or _differ(self._first[name], digest_of(value))
        }
        for name in [name for name, value in changed.items() if not is_plain(value)]:
            self._warn(name)
            del changed[name]
        return changed

    def _set(self, name: str, value: Any) -> None:
        present: Any = getattr(self._callback, name, None)
        if is_variable(present):
            present.assign(value)
        else:
            setattr(self._callback, name, value)

    def _warn(self, name: str) -> None:
        """Warn of an attribute that a backup cannot hold, once and if it may decide anything."""
        callback = self._callback
        is_of_keras = type(callback).__module__.partition(".")[0] == "keras"
        if is_of_keras or is_writer(callback) or name in self._named:
            return
        self._named.add(name)
        logger.warning(
            "The attribute %r of the callback %s has changed and is no plain value, so that a "
            "backup does not hold it: after a restart it is as at the begin. Give the class the "
            "methods `%s()` and `%s(state)` if the training depends on it.",
            name,
            self.class_name,
            _GET,
            _SET,
        )


def _differ(first: Any, second: Any) -> bool:
    are_digests = isinstance(first, bytes) and isinstance(second, bytes)
    return first != second if are_digests else first is not second
