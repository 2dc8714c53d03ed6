"""Two foreign systems that hold masked rows, simulated, with their readers: a log and a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from sinkproof.execution.recorded_job import Identity
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.models.simulated_wide_rows import WideRows
from sinkproof.sink_adapters.protocol import Batch
from sinkproof.sink_adapters.strategies.masked import MaskedSink, MaskedTarget
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction


class GatedByMarkers(MaskedTarget):
    """A simulated target: rows of a segment are visible once a marker of its generation covers its checkpoint."""

    @abstractmethod
    def staged(self) -> list[tuple[Transaction, Identity]]:
        """The rows in the target, each with its segment."""

    @abstractmethod
    def marks(self) -> list[tuple[int, int]]:
        """(generation, checkpoint id) of each marker written."""

    def sink(self) -> MaskedSink:
        return MaskedSink(self)

    def marked(self) -> dict[int, int]:
        """Generation -> the greatest checkpoint id of its markers."""
        greatest: dict[int, int] = {}
        for generation, checkpoint_id in self.marks():
            greatest[generation] = max(greatest.get(generation, 0), checkpoint_id)
        return greatest

    def is_hidden(self, segment: Transaction) -> bool:
        return segment.sequence > self.marked().get(segment.generation, 0)

    def read(self) -> list[Identity]:
        return sorted(row for segment, row in self.staged() if not self.is_hidden(segment))

    def held(self) -> list[Identity]:
        return sorted(row for _, row in self.staged())

    def markers(self) -> list[str]:
        return [f"generation {generation} up to {one}" for generation, one in self.marked().items()]

    def hidden(self) -> list[str]:
        return sorted({str(segment) for segment, _ in self.staged() if self.is_hidden(segment)})


class InLog(GatedByMarkers):
    """A simulated broker: rows and markers are records. A log deletes nothing."""

    name: Final = "a simulation of a Kafka topic, its reader gated by the markers"

    def __init__(self) -> None:
        self.broker = Broker(partitions=3)  # one for each sink subtask, and one for markers

    def stage(self, segment: Transaction, batch: Batch) -> None:
        for row in batch:
            self.broker.append((segment, row[:2]), partition=segment.subtask)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.broker.append((generation, checkpoint_id), partition=2)

    def collect(self, owner: Owner, before_generation: int) -> None:
        """No row can be removed from a log; no marker will ever cover the hidden ones."""

    def staged(self) -> list[tuple[Transaction, Identity]]:
        return [record.what for log in self.broker.logs[:2] for record in log]

    def marks(self) -> list[tuple[int, int]]:
        return [record.what for record in self.broker.logs[2]]


class InTable(GatedByMarkers):
    """A simulated Cassandra table: rows under (segment, identity), markers in a table of their own."""

    name: Final = "a simulation of a Cassandra table, its reader gated by the markers"

    def __init__(self) -> None:
        self.table = WideRows()

    def stage(self, segment: Transaction, batch: Batch) -> None:
        for row in batch:
            self.table.upsert(f"{segment} {row.split}-{row.offset}", row, timestamp=row.event_time_ms)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.table.record(f"{generation}-{checkpoint_id}")

    def collect(self, owner: Owner, before_generation: int) -> None:
        for key in list(self.table.cells):
            segment = Transaction.parse(key.split()[0])
            if self.is_hidden(segment) and owner.owns(segment.subtask) and segment.generation < before_generation:
                self.table.delete(key)

    def staged(self) -> list[tuple[Transaction, Identity]]:
        return [(Transaction.parse(key.split()[0]), row[:2]) for key, (_, row) in self.table.cells.items()]

    def marks(self) -> list[tuple[int, int]]:
        names = (name.split("-") for name in self.table.sent)
        return [(int(generation), int(checkpoint_id)) for generation, checkpoint_id in names]
