"""Show the signature of a method of Keras, which differs between versions of Keras."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


def signature_of(of_keras: Callable[..., Any], **own: Any) -> Callable[[_Method], _Method]:
    """Return a decorator that shows a method with the signature of one of Keras. Local.

    Args:
        of_keras: The method of Keras.
        **own: Keywords that the decorated method takes besides, with their defaults.
    """
    signature = inspect.signature(of_keras)
    parameters = list(signature.parameters.values())
    has_keywords = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    place = len(parameters) - has_keywords
    parameters[place:place] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in own.items()
    ]

    def decorate(method: _Method) -> _Method:
        method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return method

    return decorate
