"""Tell what passes over a pipeline depend on besides its code. No TensorFlow."""

from __future__ import annotations

from tnt_data.description.draws import describe_draws, draws_differently
from tnt_data.description.rank_differences import find_differences
from tnt_data.description.transformation import Kind, Trait, Transformation

_REMEMBERED = frozenset({"generator", "python", "state", "random"})
"""Contents of functions that go on from pass to pass; seeded draws begin anew in each of them."""
_OTHER_KINDS = frozenset({Kind.GENERATOR, Kind.OPAQUE})
_ONE_BY_ONE = frozenset({Kind.BATCH, Kind.PADDED_BATCH, Kind.FUNCTION, Kind.CACHE})


def passes_are_independent(last: Transformation) -> bool:
    """Return whether a pass is the same if those before it were begun, but not read. Local."""
    # A shuffle draws its seed when the iterator of a pass is made, but only where that iterator
    # makes those of its inputs at once, and just one of each. So there may be one transformation at
    # most that changes with the pass, and after it only such as are known to do that. A cache after
    # it keeps what the first pass has read, and functions may remember something.
    every = list(last.walk())
    if any(one.function_contents & _REMEMBERED or one.kind in _OTHER_KINDS for one in every):
        return False
    changing = [one for one in every if one.changes_order or one.functions_lack_seed]
    return not changing or (len(changing) == 1 and _draws_at_once(last, changing[0]))


def _draws_at_once(last: Transformation, changing: Transformation) -> bool:
    while last is not changing:
        keeps = last.traits & (Trait.KEEPS_SEQUENCE | Trait.ZIPS) or last.kind in _ONE_BY_ONE
        inputs = [one for one in last.inputs if any(each is changing for each in one.walk())]
        if not keeps or last.freezes_order or len(inputs) != 1:
            return False
        [last] = inputs
    return True


def find_irreproducible(last: Transformation, *, seeded: bool) -> list[str]:
    """Return what makes another process see other samples in a pass, in sentences. Local."""
    found = find_differences(last, size=2)  # ranks are processes
    for one in last.walk():
        decides = Trait.FILTERS in one.traits  # which is among the differences
        if one.kind is Kind.FUNCTION and not decides and draws_differently(one):
            found.append(describe_draws(one))
        if one.needs_seed and not seeded:
            found.append(f"{one.text} shuffles without a seed")
    return list(dict.fromkeys(found))
