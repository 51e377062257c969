"""Run code that would change variables, and leave them as they are."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tnt_keras.step.context import is_building
from tnt_keras.step.replaced_assignments import replaced_assignments


@contextlib.contextmanager
def without_assignments() -> Iterator[None]:
    """Leave all variables alone that this thread assigns to while a model is built. Local.

    Those that are created in the with-block get their initial values.
    """
    with replaced_assignments(_skipping):
        yield


def _skipping(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
        return variable if is_building() else plain(variable, *args, **kwargs)

    return assign
