"""Operators between source and sink: pure functions of rows, with state kept in key groups where there is any."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from sinkproof.reference_engine.dataflow.key_groups import key_group
from sinkproof.sink_adapters.protocol import Batch, Row


class Operator(Protocol):
    """One operator of one subtask; one that inherits from this class and adds no state has none."""

    def apply(self, batch: Batch) -> Batch | None:
        """The resulting rows. An operator may also have `on_watermark(watermark) -> Batch | None` (windows.py)."""

    def capture(self) -> Mapping[int, bytes]:
        """Its state, one value per key group."""
        return {}

    def restore(self, groups: Iterable[tuple[int, bytes]]) -> None:
        """`groups`: those that belong here now, of all old subtasks."""
        return


class Map(Operator):
    """Maps each row to one row with the same identity."""

    def __init__(self, function: Callable[[Row], Row]) -> None:
        self.function = function

    def apply(self, batch: Batch) -> Batch:
        return Batch(map(self.function, batch.rows))


class KeyedCount:
    """Maps each row to a row with the count of its key so far as its value."""

    __slots__ = ("groups", "places", "totals")

    def __init__(self) -> None:
        self.places: dict[str, int] = {}  # of each key, in the order in which they came: where the two below have it
        self.totals = array("q")
        self.groups = array("B")

    def apply(self, batch: Batch) -> Batch:
        return self._apply_columns(batch) if batch.columnar else Batch(map(self._count, batch.rows))

    def _count(self, row: Row) -> Row:
        place = self._place(row.key)
        self.totals[place] = count = self.totals[place] + 1
        return row._replace(value=str(count))

    def _place(self, key: str) -> int:
        place = self.places.get(key)
        if place is None:
            self._add(key, key_group(key), 0)
            place = self.places[key]
        return place

    def _add(self, key: str, group: int, total: int) -> None:
        self.places[key] = len(self.totals)
        self.totals.append(total)
        self.groups.append(group)

    def _apply_columns(self, batch: Batch) -> Batch:
        """Handles each key once, and rows by column only."""
        from sinkproof.reference_engine.dataflow import columns

        keys, codes = columns.distinct_keys(batch)
        places = list(map(self.places.get, keys))
        if None in places:
            places = list(map(self._place, keys))
        return columns.with_values(batch, columns.count_up(self.totals, places, codes))

    def capture(self) -> Mapping[int, bytes]:
        counts: dict[int, dict[str, int]] = {}
        for key, group, total in zip(self.places, self.groups, self.totals, strict=True):
            counts.setdefault(group, {})[key] = total
        return {group: msgspec.json.encode(of, order="sorted") for group, of in sorted(counts.items())}

    def restore(self, groups: Iterable[tuple[int, bytes]]) -> None:
        self.places, self.totals, self.groups = {}, array("q"), array("B")
        for group, state in groups:
            for key, total in msgspec.json.decode(state).items():
                self._add(key, group, total)
