"""Steps of a model whose results and variables are hashed, if `TNT_STEP_HASHES` names a file."""

from __future__ import annotations

from typing import Any

from tnt_keras.process.step_hashes import StepHashes, move_weights, step_hashes


def hashed_if_wanted(model: Any, kind: str) -> None:
    """Let the function that Keras calls for "train", "test" or "predict" steps be hashed. Local."""
    file, attribute = step_hashes(), f"{kind}_function"
    function = getattr(model, attribute)
    if file is not None and not isinstance(function, _HashedFunction):
        setattr(model, attribute, _HashedFunction(model, kind, function, file))


class _HashedFunction:
    """The function of a model that Keras calls, with a line of the file for each call."""

    def __init__(self, model: Any, kind: str, function: Any, file: StepHashes) -> None:
        self._model = model
        self._kind = kind
        self._function = function
        self._file = file

    def __call__(self, batches: Any) -> Any:
        """Compute a step, and write what it has returned and changed."""
        model, optimizer = self._model, getattr(self._model, "optimizer", None)
        if self._kind == "train":
            move_weights(model.trainable_variables)
        result = self._function(batches)
        variables = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
        done = int(optimizer.iterations) if self._kind == "train" and optimizer else None
        self._file.record(f"{self._kind}_step", model.name, result, variables, done)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)  # which Keras' callbacks look for
