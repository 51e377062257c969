"""Numbers that depend on the number of rows, in a partition for any number of rows.

There, `N` is a prime number that is larger than any number of a program. So a multiple of it is
told from all others: it is `m * N`. Of these only such sums, products and quotients are formed that
are multiples again, whatever `N` is. Everything else that depends on `N` is unknown, and computed
when the step runs. A number that slips through fits into no tensor: building fails.

`N` is at least 2: no operation takes such an axis for one that it may repeat.
"""

from __future__ import annotations

from collections.abc import Iterable

from tnt_keras.partition.placement import Shape

ANY_ROWS = 2**127 - 1
"""The number of rows of a partition for any number of rows."""

STAND_INS = (3_000_017, 3_000_029)
"""Two prime numbers of rows: what is a multiple of them for both is one for any number."""

GUESS = 100
"""Of a number of rows, or of a length, where something is estimated."""

ROWS_OF_EXAMPLE = 1009
"""The number of rows in the example of unknown sizes, see `Value`."""

_TOO_LARGE = 2**64  # for every dtype


def counts_rows(number: int | None) -> bool:
    """Return whether a number depends on the number of rows."""
    return number is not None and abs(number) >= _TOO_LARGE


def multiple(number: int) -> int | None:
    """Return a number if it is known, or `m * N`; else None."""
    if not counts_rows(number):
        return number
    return number if number % ANY_ROWS == 0 and 0 < number // ANY_ROWS < _TOO_LARGE else None


def quotient(number: int, divisor: int) -> int | None:
    """Return a number divided by another and rounded down, None if it is no such multiple."""
    is_known = divisor != 0 and (counts_rows(number) or not counts_rows(divisor))
    return multiple(number // divisor) if is_known else None


def are_alike(first: int, second: int) -> bool:
    """Return whether two numbers are in the same order for any number of rows."""
    return counts_rows(first) == counts_rows(second)


def for_rows(number: int, num_rows: int) -> int:
    """Return a number for so many rows."""
    return number // ANY_ROWS * num_rows if counts_rows(number) else number


def in_example(shape: Iterable[int]) -> tuple[int, ...]:
    """Return numbers for the number of rows in the example."""
    return tuple(for_rows(size, ROWS_OF_EXAMPLE) for size in shape)


def static(shape: Shape) -> Shape:
    """Return a shape with None for what depends on the number of rows."""
    return None if shape is None else tuple(None if counts_rows(s) else s for s in shape)


def shown(number: int) -> str:
    """Return a number for messages."""
    return f"{number // ANY_ROWS}N" if counts_rows(number) else str(number)
