"""Strings and tables, an element or a row at a time."""

from __future__ import annotations

from tnt_keras.partition.placement import HANDLE, REPLICATED, Rows
from tnt_keras.partition.rules.batches import along_leading_axes, batchwise, placements
from tnt_keras.partition.rules.registry import Decision, Operation, rule


@rule("StringLower StringUpper StringStrip StringLength", spreads=True)
@rule("StaticRegexReplace StaticRegexFullMatch UnicodeScript UnicodeTranscode", spreads=True)
@rule("StringToHashBucket StringToHashBucketFast StringToHashBucketStrong", spreads=True)
@rule("AsString StringToNumber EncodeBase64 DecodeBase64", spreads=True)
@rule("RegexReplace RegexFullMatch", replicated=[1, 2])
def _one_string(operation: Operation) -> Decision | None:
    """Cut strings or numbers; a pattern may follow, and what takes its place."""
    return along_leading_axes(operation, 0)


@rule("Fingerprint", replicated=[1])
def _fingerprint(operation: Operation) -> Decision | None:
    """Hash what lies along all axes but the first."""
    return batchwise(operation, [0])


@rule("StringJoin Substr")
def _with_scalars(operation: Operation) -> Decision | None:
    """Cut arrays of one shape; scalars are repeated."""
    first = operation.inputs[operation.with_rows()[0]]
    rows = first.placement
    assert isinstance(rows, Rows)
    arrays = [i for i, value in enumerate(operation.inputs) if value.shape != ()]
    if first.shape is None or rows.inner is None:
        return None
    if any(operation.inputs[i].shape != first.shape for i in arrays):
        return None
    return Decision(placements(operation, arrays, rows), (rows,))


@rule("LookupTableFindV2", replicated=[2])
def _look_up(operation: Operation) -> Decision | None:
    """Cut keys, unless they are arrays and the rows lie within them."""
    keys, default = operation.inputs[1:]
    rows, values = keys.placement, operation.outputs[0].shape
    if not isinstance(rows, Rows) or values is None or default.shape is None:
        return None
    if rows.axis >= len(values) - default.rank:
        return None
    return Decision((HANDLE, rows, REPLICATED), (rows,))
