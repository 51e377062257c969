"""Hashes of all variables and results after each step, by which runs can be compared bit by bit.

The master rank writes them to the file that `TNT_STEP_HASHES` names, as lines of JSON, each with a
"kind": first what the run is ("run"), then what has changed by each step ("step") and what may
explain a difference ("note"), at last how large the variables are ("end").
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.process.lanes import given_lanes, is_seeded
from tnt_keras.process.rank import (
    get_size,
    is_master_rank,
    is_restarted,
    settings,
    threads_of_operations,
)

FORMAT = 1  # of the file

_DIGITS = 16  # of a hash
# Instruction sets by which libraries choose their kernels, as Linux names them.
_INSTRUCTIONS = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
)


_moved: dict[int, Any] = {}


class StepHashes:
    """The file of one run, on the master rank."""

    def __init__(self, path: str) -> None:
        try:
            self._of_former_starts = _numbers_in(path) if is_restarted() else {}
            self._file: TextIO = open(path, "a" if is_restarted() else "w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise type(error)(
                error.errno,
                f"TNT_STEP_HASHES={path!r} cannot be written: {error.strerror}. Name a file in a "
                f"folder that exists and that rank 0 may write to, or unset it.",
            ) from None
        self._known: dict[str, str] = {}  # the hashes that were written last
        self._variables: dict[str, Any] = {}
        self._notes: set[str] = set()
        self._num_steps = 0
        self._write(_description())
        atexit.register(self._end)

    def record(
        self,
        step: str,
        owner: str,
        results: Any,
        variables: Iterable[Any],
        iterations: int | None = None,
    ) -> None:
        """Write what a step has returned, and the variables that it has changed. Local.

        `iterations` is how many steps the optimizer has made, by which a run that goes on after a
        failure knows the number of its first step.
        """
        former = self._of_former_starts.get((step, owner, iterations))
        if former is not None:
            self._num_steps, self._of_former_starts = former - 1, {}
        self._num_steps += 1
        named = _named(owner, variables)
        self._variables.update(named)
        hashes = {name: _hash(variable) for name, variable in named.items()}
        changed = {n: h for n, h in hashes.items() if self._known.get(n) != h}
        self._known.update(changed)
        self._write(
            {
                "kind": "step",
                "number": self._num_steps,
                "step": step,
                "model": owner,
                "iterations": iterations,
                "results": {name or "result": _result(leaf) for name, leaf in _leaves(results)},
                "variables": changed,
            }
        )

    def note(self, about: str, text: str) -> None:
        """Write once what may explain why runs differ. Local."""
        if text not in self._notes:
            self._notes.add(text)
            self._write({"kind": "note", "about": about, "text": text})

    def _end(self) -> None:
        norms = {name: _norms(variable) for name, variable in self._variables.items()}
        norms = {name: each for name, each in norms.items() if each is not None}
        self._write({"kind": "end", "steps": self._num_steps, "norms": norms})
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()  # what a killed run has done can be compared


@functools.cache
def step_hashes() -> StepHashes | None:
    """Return the file of this process, None if none is wanted or another rank writes it. Local."""
    path = settings().step_hashes
    return StepHashes(path) if path and is_master_rank() else None


def note(about: str, text: str) -> None:
    """Note what may explain why runs differ, if there is a file. Local.

    It is about a "rank", a "draw", a "map", "python" or the "whole"; the text is a sentence, with
    the line of the script where it is known.
    """
    file = step_hashes()
    if file is not None:
        file.note(about, text)


def move_weights(variables: Iterable[Any]) -> None:
    """Move variables of floats by their last bit, if that is wanted: once each. Local."""
    if not settings().moves_weights:
        return
    variables = [each for each in variables if id(each) not in _moved]
    _moved.update((id(each), each) for each in variables)
    for variable in variables:
        value = np.asarray(variable.numpy())
        if value.dtype in (np.float32, np.float64):
            variable.assign(np.nextafter(value, np.asarray(np.inf, value.dtype)))


def noting_callers(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that tells of the place of a rank, and notes who asks. Local."""

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        place = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
        note("rank", f"{place} calls {name}(), whose result differs from run to run")
        return function(*args, **kwargs)

    return asked


def _numbers_in(path: str) -> dict[tuple[str, str, int | None], int]:
    """Return the numbers of the steps of optimizers that a former start has written.

    A line that it was killed in is cut off.
    """
    try:
        with open(path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
    except FileNotFoundError:
        return {}
    lines = map(json.loads, content[: content.rfind(b"\n") + 1].splitlines())
    steps = [line for line in lines if line["kind"] == "step" and line["iterations"]]
    return {(s["step"], s["model"], s["iterations"]): s["number"] for s in steps}


def _description() -> dict[str, Any]:
    cpu = _cpu()
    return {
        "kind": "run",
        "format": FORMAT,
        "size": get_size(),
        "lanes": given_lanes(),
        "threads": threads_of_operations(),
        "processor": cpu.get("model name", platform.machine()),
        "instructions": [each for each in _INSTRUCTIONS if each in cpu.get("flags", "").split()],
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1"),
        "deterministic": given_lanes() is not None,
        "seeded": is_seeded(),
        "compute_dtype": keras.config.dtype_policy().compute_dtype,
    }


def _cpu() -> dict[str, str]:
    """Return what Linux says of the first processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        first = file.read().split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _named(owner: str, variables: Iterable[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for variable in variables:
        path = getattr(variable, "path", None) or variable.name
        name, number = f"{owner}: {path}", 1
        while name in named:  # which Keras allows
            number += 1
            name = f"{owner}: {path} ({number})"
        named[name] = variable
    return named


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        parts = tf.nest.flatten(value, expand_composites=True)
        return np.concatenate([np.frombuffer(part.numpy().tobytes(), np.uint8) for part in parts])
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _hash(value: Any) -> str:
    array = _array(value)
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    kind = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(kind + content).hexdigest()[:_DIGITS]


def _result(leaf: Any) -> dict[str, Any]:
    array, result = _array(leaf), {"hash": _hash(leaf)}
    if array.size == 1 and array.dtype.kind in "fiu":
        return {"value": float(array.reshape(())), **result}
    return result


def _leaves(results: Any) -> list[tuple[str, Any]]:
    if isinstance(results, Mapping):
        pairs = [(str(key), each) for key, value in results.items() for each in _leaves(value)]
        return [(f"{key} {name}".strip(), leaf) for key, (name, leaf) in pairs]
    leaves = [leaf for leaf in keras.tree.flatten(results) if leaf is not None]
    return [(str(i) if len(leaves) > 1 else "", leaf) for i, leaf in enumerate(leaves)]


def _norms(variable: Any) -> list[float] | None:
    """Return mean and root mean square of a variable of floats."""
    array = _array(variable)
    if array.dtype.kind != "f" or not array.size:
        return None
    wide = array.astype(np.float64)
    return [float(wide.mean()), float(np.sqrt((wide * wide).mean()))]
