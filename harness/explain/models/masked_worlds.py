"""Four targets that hold masked rows, two of them simulations of foreign systems, and the reader of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sinkproof.execution.recorded_job import Identity
from sinkproof.explain.models.simulated_broker import Broker
from sinkproof.explain.models.simulated_wide_rows import WideRows
from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.masked_files import MaskedFiles
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.memory.memory_clients import MemorySegments
from sinkproof.sink_adapters.memory.memory_store import MemoryStore
from sinkproof.sink_adapters.protocol import Batch
from sinkproof.sink_adapters.strategies.masked import MaskedSink
from sinkproof.sink_adapters.strategies.ownership_and_names import Owner, Transaction


class InMemory:
    name: Final = "memory"

    def __init__(self) -> None:
        self.store = MemoryStore()

    def sink(self) -> MaskedSink:
        return MaskedSink(MemorySegments(self.store))

    def read(self) -> list[Identity]:
        return self.store.read()

    def held(self) -> list[Identity]:
        """Every row in the target, revealed or not."""
        return sorted(row[:2] for rows in self.store.staged.values() for row in rows)

    def markers(self) -> list[str]:
        return [f"generation {token[1]} up to {marker}" for token, marker in sorted(self.store.markers.items())]

    def hidden(self) -> list[str]:
        return self.store.residue()


class InFiles:
    name: Final = "files"

    def __init__(self) -> None:
        self.disk = MemoryDisk()

    def sink(self) -> MaskedSink:
        return MaskedSink(MaskedFiles(Files(self.disk)))

    def read(self) -> list[Identity]:
        return readers.read_masked(self.disk)

    def held(self) -> list[Identity]:
        parts = [f"masked/sink/{name}" for name in self.disk.list("masked/sink") if name.startswith("part-")]
        return sorted(row for part in parts for row in JSON_LINES.identities(self.disk.read(part)))

    def markers(self) -> list[str]:
        return [name for name in self.disk.list("masked/sink") if name.startswith("revealed-")]

    def hidden(self) -> list[str]:
        return [path.rpartition("/")[2] for path in readers.masked_residue(self.disk)]


class InLog:
    """A simulated broker: rows and markers are records; the reader is gated by the markers. A log deletes nothing."""

    name: Final = "a simulation of a Kafka topic, its reader gated by the markers"

    def __init__(self) -> None:
        self.broker = Broker(partitions=3)  # one for each sink subtask, and one for markers

    def sink(self) -> MaskedSink:
        return MaskedSink(self)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        for row in batch:
            self.broker.append((segment, row[:2]), partition=segment.subtask)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.broker.append((generation, checkpoint_id), partition=2)

    def collect(self, owner: Owner, before_generation: int) -> None:
        """No row can be removed from a log; no marker will ever cover the hidden ones."""

    def _staged(self) -> list[tuple[Transaction, Identity]]:
        return [record.what for log in self.broker.logs[:2] for record in log]

    def _marked(self) -> dict[int, int]:
        return _greatest(record.what for record in self.broker.logs[2])

    def read(self) -> list[Identity]:
        marked = self._marked()
        return [row for segment, row in self._staged() if segment.sequence <= marked.get(segment.generation, 0)]

    def held(self) -> list[Identity]:
        return sorted(row for _, row in self._staged())

    def markers(self) -> list[str]:
        return _named(self._marked())

    def hidden(self) -> list[str]:
        marked = self._marked()
        return sorted(
            {str(segment) for segment, _ in self._staged() if segment.sequence > marked.get(segment.generation, 0)}
        )


class InTable:
    """A simulated Cassandra table: rows under (segment, identity), markers in a table of their own."""

    name: Final = "a simulation of a Cassandra table, its reader gated by the markers"

    def __init__(self) -> None:
        self.table = WideRows()

    def sink(self) -> MaskedSink:
        return MaskedSink(self)

    def stage(self, segment: Transaction, batch: Batch) -> None:
        for row in batch:
            self.table.upsert(f"{segment} {row.split}-{row.offset}", row, timestamp=row.event_time_ms)

    def reveal(self, generation: int, checkpoint_id: int) -> None:
        self.table.mark_sent(f"{generation}-{checkpoint_id}")

    def collect(self, owner: Owner, before_generation: int) -> None:
        for key in [key for key, segment in self._segments() if self._is_hidden(segment)]:
            segment = Transaction.parse(key.split()[0])
            if owner.owns(segment.subtask) and segment.generation < before_generation:
                self.table.delete(key)

    def _segments(self) -> list[tuple[str, Transaction]]:
        return [(key, Transaction.parse(key.split()[0])) for key in self.table.cells]

    def _marked(self) -> dict[int, int]:
        names = (name.split("-") for name in self.table.sent)
        return _greatest((int(generation), int(checkpoint_id)) for generation, checkpoint_id in names)

    def _is_hidden(self, segment: Transaction) -> bool:
        return segment.sequence > self._marked().get(segment.generation, 0)

    def read(self) -> list[Identity]:
        return sorted(self.table.cells[key][1][:2] for key, segment in self._segments() if not self._is_hidden(segment))

    def held(self) -> list[Identity]:
        return self.table.read()

    def markers(self) -> list[str]:
        return _named(self._marked())

    def hidden(self) -> list[str]:
        return sorted({str(segment) for _, segment in self._segments() if self._is_hidden(segment)})


def _named(marked: dict[int, int]) -> list[str]:
    return [f"generation {generation} up to {checkpoint_id}" for generation, checkpoint_id in marked.items()]


def _greatest(markers: Iterable[tuple[int, int]]) -> dict[int, int]:
    greatest: dict[int, int] = {}
    for generation, checkpoint_id in markers:
        greatest[generation] = max(greatest.get(generation, 0), checkpoint_id)
    return greatest


MaskedTarget = InMemory | InFiles | InLog | InTable
