"""The folder that all processes of one run share: what happened, what is armed, what was passed, the checkpoints."""

from __future__ import annotations

from pathlib import Path

from sinkproof.chaos.shared.armed_fault import ArmedFaults
from sinkproof.chaos.shared.event_log import EventLog, EventLogReader
from sinkproof.chaos.shared.point_counts import PointCounts


class RunFolder:
    """Paths only; nothing but the folder itself is made in advance."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "points").mkdir(parents=True, exist_ok=True)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def events(self) -> EventLog:
        return EventLog(self.path / "events")

    def events_reader(self) -> EventLogReader:
        return EventLogReader(self.path / "events")

    def armed(self) -> ArmedFaults:
        return ArmedFaults(self.path / "armed")

    def counts(self, actor: str) -> PointCounts:
        return PointCounts(self.counts_path(actor))

    def counts_path(self, actor: str) -> Path:
        return self.path / "points" / actor

    @property
    def processes(self) -> Path:
        """The driver's pid, for faults that kill the whole job."""
        return self.path / "driver.pid"

    @property
    def hosts(self) -> Path:
        """A socket in the folder, where faults of hosts are requested; it exists while they can be injected."""
        return self.path / "hosts"

    @property
    def stop_wish(self) -> Path:
        """Exists once the user has requested that the job ends with a checkpoint."""
        return self.path / "stop"
