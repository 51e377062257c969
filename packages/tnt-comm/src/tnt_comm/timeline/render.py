"""Make a part of a Chrome trace of the records of one rank."""

# A trace file (Chrome trace event format, JSON) is: head, events, info head, info, tail. Every
# event is a line, so that files can be joined without reading the events.

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

HEAD = '{"displayTimeUnit":"ms","traceEvents":[\n'
SEPARATOR = ",\n"
INFO_HEAD = '\n],"otherData":'
TAIL = "}\n"

RECORDS_HEAD = b"tnt-comm records 1\n"

_FIRST_OTHER_ROW = 10_000_000
"""Rows that are no threads get numbers that no thread can have."""

_BEGIN, _END, _STATE, _INSTANT = range(4)
_EVENT = struct.Struct("=qQIIB7x")
_ORIGIN = struct.Struct("=iiqqqQ")


class _Open(NamedTuple):
    """A slice or a state that has begun."""

    begin_ns: int
    value: int
    name: int


@dataclass
class _Row:
    """A row as it is drawn, and what is open on it."""

    title: str
    number: int
    category: str  # as JSON
    value_name: str  # as JSON; "" if there is no value
    arguments: str  # of all its events: members of a JSON object
    slices: list[_Open] = field(default_factory=list)  # nested: the last one is the innermost
    state: _Open | None = None


class _Reader:
    """Reads what records.cpp writes."""

    def __init__(self, records: bytes) -> None:
        self._records = records
        self._at = len(RECORDS_HEAD)

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._records, self._at)
        self._at += layout.size
        return values

    def count(self) -> int:
        return self.numbers(struct.Struct("=I"))[0]

    def text(self) -> str:
        end = self.count() + self._at
        read = self._records[self._at : end].decode("utf-8", "replace")
        self._at = end
        return read

    def row(self, index: int) -> _Row:
        thread, num_bytes = self.numbers(struct.Struct("=qQ"))
        title, category, value_name, bucket = (self.text() for _ in range(4))
        arguments = f'"bucket":{quoted(bucket)},"bytes":{num_bytes}' if bucket else ""
        number = thread or _FIRST_OTHER_ROW + index
        name = quoted(value_name) if value_name else ""
        return _Row(title, number, quoted(category), name, arguments)

    def events(self) -> Iterator[tuple[int, ...]]:
        return _EVENT.iter_unpack(self._records[self._at :])


class _Lines:
    """The lines of a rank: pairs of begin and end become slices that know their length."""

    def __init__(self, rank: int, offset_ns: int, rows: list[_Row], names: list[str]) -> None:
        self._rank = rank
        self._offset_ns = offset_ns
        self._rows = rows
        self._names = names
        self.lines: list[str] = []

    def add_all(self, events: Iterator[tuple[int, ...]]) -> None:
        """Add events in their order; what is open at the last one is shown until then."""
        last_ns = 0
        for time_ns, value, row, name, kind in events:
            last_ns = max(last_ns, time_ns)
            self._take(self._rows[row], kind, _Open(time_ns, value, name))
        for left in self._rows:
            while left.slices:
                self._add_slice(left, left.slices.pop(), last_ns, is_unfinished=True)
            self._end_state(left, last_ns, is_unfinished=True)

    def _take(self, row: _Row, kind: int, event: _Open) -> None:
        if kind == _BEGIN:
            row.slices.append(event)
        elif kind == _END:
            self._end_slice(row, event)
        else:
            self._end_state(row, event.begin_ns)
            if kind == _STATE:
                row.state = event
            else:
                self._add('"ph":"i","s":"t"', row, event)

    def _end_slice(self, row: _Row, end: _Open) -> None:
        if all(begun.name != end.name for begun in row.slices):
            return  # its begin was dropped or never was
        while (begun := row.slices.pop()).name != end.name:
            self._add_slice(row, begun, end.begin_ns, is_unfinished=True)
        self._add_slice(row, begun, end.begin_ns)

    def _end_state(self, row: _Row, end_ns: int, *, is_unfinished: bool = False) -> None:
        if row.state is not None:
            self._add_slice(row, row.state, end_ns, is_unfinished=is_unfinished)
            row.state = None

    def _add_slice(
        self, row: _Row, begun: _Open, end_ns: int, *, is_unfinished: bool = False
    ) -> None:
        duration = microseconds(max(0, end_ns - begun.begin_ns))
        self._add(f'"ph":"X","dur":{duration}', row, begun, is_unfinished=is_unfinished)

    def _add(self, what: str, row: _Row, event: _Open, *, is_unfinished: bool = False) -> None:
        arguments = [
            f"{row.value_name}:{event.value}" if row.value_name else "",
            row.arguments,
            '"unfinished":true' if is_unfinished else "",
        ]
        self.lines.append(
            f'{{{what},"ts":{microseconds(event.begin_ns + self._offset_ns)},"pid":{self._rank},'
            f'"tid":{row.number},"name":{self._names[event.name]},"cat":{row.category},'
            f'"args":{{{",".join(filter(None, arguments))}}}}}'
        )


def render_part(records: bytes, state: str) -> str:
    """Return a whole trace of one rank, which is its part of the trace of all. Local.

    `records` are those of `_core.timeline_records`; the part is "started" at start-up, "partial"
    when another rank has ended, and "complete" at the end.
    """
    reader = _Reader(records)
    rank, size, offset_ns, error_ns, now_ns, num_dropped = reader.numbers(_ORIGIN)
    host = reader.text()
    rows = [reader.row(index) for index in range(reader.count())]
    names = [quoted(reader.text()) for _ in range(reader.count())]
    drawn = _Lines(rank, offset_ns, rows, names)
    drawn.lines += process_names(rank, f"rank {rank} ({host})")
    for index, row in enumerate(rows):
        drawn.lines += _names_of("thread", f'{rank},"tid":{row.number}', row.title, index)
    drawn.add_all(reader.events())
    if num_dropped:
        missing = f"the last {num_dropped} events of rank {rank} are missing: the timeline was full"
        drawn.lines.append(process_mark(rank, now_ns + offset_ns, missing))
    info = (
        f'{{"rank":{rank},"size":{size},"host":{quoted(host)},"state":"{state}",'
        f'"dropped_events":{num_dropped},"clock_error_us":{error_ns / 1000}}}'
    )
    return f"{HEAD}{SEPARATOR.join(drawn.lines)}{INFO_HEAD}{info}{TAIL}"


def process_names(rank: int, title: str) -> list[str]:
    """Return lines that name the process of a rank in the viewer, in order. Local."""
    return _names_of("process", str(rank), title, rank)


def process_mark(rank: int, time_ns: int, name: str) -> str:
    """Return a mark that the viewer shows for a whole process. Local."""
    return (
        f'{{"ph":"i","s":"p","cat":"trace","pid":{rank},"tid":0,"ts":{microseconds(time_ns)},'
        f'"name":{quoted(name)},"args":{{}}}}'
    )


def quoted(text: str) -> str:
    """Return a text as JSON string. Local."""
    return json.dumps(text, ensure_ascii=False)


def microseconds(time_ns: int) -> str:
    """Return a time as the format counts. Local."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' if time_ns < 0 else ''}{whole}.{rest:03}"


def _names_of(what: str, pid: str, title: str, sort_index: int) -> list[str]:
    return [
        f'{{"ph":"M","name":"{what}_name","pid":{pid},"args":{{"name":{quoted(title)}}}}}',
        f'{{"ph":"M","name":"{what}_sort_index","pid":{pid},"args":{{"sort_index":{sort_index}}}}}',
    ]
