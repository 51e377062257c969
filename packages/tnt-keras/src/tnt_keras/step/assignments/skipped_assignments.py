"""Skip assignments to variables while a step runs only to create the variables of a model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tnt_keras.step.assignments.assigning_methods import replaced_assigning_methods
from tnt_keras.step.context import is_building


@contextlib.contextmanager
def skipped_assignments() -> Iterator[None]:
    """Skip what this thread assigns to variables in a with-block while it builds a model. Local.

    Variables that are created in the block get their initial values.
    """
    with replaced_assigning_methods(_skipped):
        yield


def _skipped(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
        return variable if is_building() else plain(variable, *args, **kwargs)

    return assign
