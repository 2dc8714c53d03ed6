"""The independent reader: looks at the committed view before every decision, around every zombie, and at the end."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sinkproof.chaos.schedule import Fault
from sinkproof.contract import ContractError
from sinkproof.ledger import Identity, Ledger
from sinkproof.oracle import Observation
from sinkproof.reference_engine.shells.reader import ReaderFailed
from sinkproof.reports.document import SourceLine
from sinkproof.source_files import source_line

if TYPE_CHECKING:
    from sinkproof.contract import Contract
    from sinkproof.reference_engine.coordinator import CheckpointRecord
    from sinkproof.reference_engine.shells.simulated import Simulation
    from sinkproof.scratch import Scratch

NO_FILES: Mapping[str, str] = {}
READS_MOST = 50  # until two readings are equal; a target that never comes to rest makes the run UNKNOWN


class NeverQuiet(Exception):
    """The committed view kept changing although nobody writes any more."""


class Observer:
    """A Watcher of one run. Rows seen are kept in `observation`; what is wrong with them is the oracle's affair."""

    def __init__(
        self,
        contract: Contract,
        scratch: Scratch,
        ledger: Ledger,
        *,
        files: Mapping[str, str] = NO_FILES,
        counts_rows: bool = False,
    ) -> None:
        self.contract, self.scratch, self.ledger = contract, scratch, ledger
        self.files = files  # path of a file of the sink's own code -> its name in points
        self.counts_rows = counts_rows  # at each fault: how many rows are committed by then
        self.rows_when_struck = 0
        self.struck_line: SourceLine | None = None
        self.observation = Observation()
        self._version = contract.optional("version")
        self._looked_at = -1
        self._before: Counter[Identity] | None = None

    def read(self) -> list[Identity] | None:
        """What is visible now; None where the reader fails: before the first row there may be nothing to be read."""
        try:
            return self.contract.committed(self.scratch)
        except (ContractError, ReaderFailed, MemoryError):
            raise
        except Exception as error:  # the border to somebody else's reader; whether it matters is judged at the end
            self.observation.unreadable = f"{type(error).__name__}: {error}"
            return None

    def _read_muted(self, simulation: Simulation) -> list[Identity] | None:
        muted, simulation.muted = simulation.muted, True
        rows = self.read()
        simulation.muted = muted
        return rows

    def deciding(self, simulation: Simulation, record: CheckpointRecord) -> None:
        if self._changed():
            self._look(simulation, record.checkpoint_id)

    def _changed(self) -> bool:
        if self._version is None:
            return True
        version, before = self._version(self.scratch), self._looked_at
        self._looked_at = version
        return bool(version != before)

    def _look(self, simulation: Simulation, checkpoint_id: int) -> None:
        complete = simulation.covered(simulation.storage.latest())
        rows = self.read() or ()
        self.observation.early += [(row, checkpoint_id) for row in self.ledger.beyond(complete, rows)]

    def striking(self, simulation: Simulation, fault: Fault) -> None:
        self.struck_line = source_line(fault.point, self.files) or self._line_of_stack()
        if self.counts_rows:
            self.rows_when_struck = len(self._read_muted(simulation) or ())

    def _line_of_stack(self) -> SourceLine | None:
        """The innermost line of the sink's own code; None where the fault struck outside it."""
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_filename in self.files:
                file, number = frame.f_code.co_filename, frame.f_lineno
                return SourceLine(file=self.files[file], number=number, text=linecache.getline(file, number).strip())
        return None

    def waking(self, simulation: Simulation, actor: str) -> None:
        rows = self._read_muted(simulation)
        self._before = None if rows is None else Counter(rows)

    def woken(self, simulation: Simulation, actor: str) -> None:
        rows = self._read_muted(simulation)
        if rows is None or self._before is None:
            return
        after, complete = Counter(rows), simulation.covered(simulation.storage.latest())
        for row in after - self._before:
            if after[row] > 1 or self.ledger.beyond(complete, [row]):
                self.observation.zombie_added.append((actor, row))
        self.observation.zombie_removed += [(actor, row) for row in self._before - after]

    def ended(self, simulation: Simulation) -> None:
        seen = self.observation
        seen.finished, seen.failure = simulation.finished, simulation.failure
        simulation.host.reap()
        self.look_at_the_end()  # before the quiet recovery, which would heal what the job left undone
        residue = self.contract.optional("residue")
        if residue is not None and simulation.finished and list(residue(self.scratch)):
            simulation.recover_quietly()
            seen.residue = tuple(map(str, residue(self.scratch)))

    def look_at_the_end(self) -> None:
        """When nobody writes any more."""
        seen = self.observation
        seen.committed = self._read_to_quiescence()
        seen.seen = None if seen.unreadable else self.contract.seen(self.scratch)

    def _read_to_quiescence(self) -> list[Identity]:
        """Twice the same. Nobody writes any more, so a quiet interval between the two is not waited for here."""
        self.observation.unreadable = ""
        last = self.read()
        if self.scratch.shell == "simulated":
            return last or []  # one thread: nothing can have happened in between
        for _ in range(READS_MOST):
            self.observation.unreadable = ""
            again = self.read()
            if again == last:
                return again or []
            last = again
        raise NeverQuiet(f"{READS_MOST} readings of the committed view, no two alike, after every writer was gone")
