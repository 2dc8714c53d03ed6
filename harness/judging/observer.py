"""The independent reader: reads the committed view before decisions, around every zombie, and at the end.

In some runs it also reads while the sinks run: at every point where the target has changed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.error_text import described
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.lines import line_on_stack
from sinkproof.chaos.points import AROUND_CALLS, CALLED_FROM, COORDINATOR_POINTS, is_line
from sinkproof.chaos.schedule import Fault
from sinkproof.judging.altered_rows import shows_more
from sinkproof.judging.checkpoint_rows import CheckpointRows, is_marked
from sinkproof.judging.oracle import Observation
from sinkproof.judging.patience import within
from sinkproof.reference_engine.checkpointing.visible_rows import beyond, changed_by_zombie
from sinkproof.reference_engine.shells.reader_command import ReaderFailed, UnreadableTarget
from sinkproof.reports.document import SourceLine
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import ContractError
from sinkproof.subject.source_files import source_line
from sinkproof.workload.ledger import Identity, Ledger

if TYPE_CHECKING:
    from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
    from sinkproof.reference_engine.shells.job import RunningJob
    from sinkproof.subject.contract import Contract
    from sinkproof.subject.scratch import Scratch

NO_FILES: Mapping[str, str] = {}
STEPS: Final = frozenset({*AROUND_CALLS, *COORDINATOR_POINTS})
DECISIONS_READ: Final = 60  # of a run: the target is read before each of these decisions, then before one in eight
ONE_IN: Final = 8
WAITED_SECONDS: Final = 1.0  # a reader that fails after that has waited for a lock
# While an attempt is suspended. A reader that waits forever for a lock of it waits for no more than this, or some times
# the longest reading before.
WAITS_SECONDS_MOST, TIMES_LONGEST = 4.0, 5
READS_MOST = 50  # until two readings are equal; a target that never comes to rest makes the run UNKNOWN


class NeverQuiet(Exception):
    """The committed view kept changing after every writer was gone."""


class Observer:
    """A Watcher of one run. It notes in `observation` what it reads; the oracle judges it."""

    def __init__(
        self,
        contract: Contract,
        scratch: Scratch,
        ledger: Ledger,
        *,
        files: Mapping[str, str] = NO_FILES,
    ) -> None:
        self.contract, self.scratch, self.ledger = contract, scratch, ledger
        self.files = files  # path of a file of the sink's own code -> its name in points
        self.struck_line: SourceLine | None = None
        self.observation = Observation()
        self._version = contract.optional("version")
        self._evidence = contract.optional("evidence")
        self._version_read = -1
        self._rows_read: list[Identity] | None = None  # at that version
        self._reads_again = False  # the reader has failed before the last decision
        self._decisions = 0  # of this run
        self.reading: Callable[[], AbstractContextManager[None]] = nullcontext  # around each reading
        self._before: Counter[Identity] | None = None
        self.suspended_at: Callable[[], str] = str  # the point at which an attempt is suspended now; "": none is
        self.locked_at: set[str] = set()  # such points at which a reader has waited for a lock: it waits there once
        self.held: Callable[[], list[int]] | None = None  # pids of suspended attempts, or else of all
        self.has_ended_suspended = False  # so that a reader which waited could go on
        self._suspending = ""  # the point of such a fault
        self._longest_reading = 0.0
        self.checkpoint_rows = CheckpointRows(ledger)
        self._atomic = Claim.ATOMIC_CHECKPOINT in contract.claims and contract.rows == "append"
        self._complete = contract.optional("complete") if Claim.HONEST_MARKERS in contract.claims else None
        self._reads_in_between = self._atomic or self._complete is not None

    def read(self, *, held_at: str = "") -> list[Identity] | None:
        """What is visible now; None where the reader fails: before the first row there may be nothing to read.
        `held_at`: the point at which an attempt waits for the end of this reading; it may hold a lock there.
        """
        return self._read(self.contract.committed, held_at=held_at)

    def read_rows(self) -> list[Any] | None:
        """The same, as the reader gives the rows."""
        return self._read(self.contract.committed_rows)

    def _read(self, read: Callable[[Scratch], list[Any]], *, held_at: str = "") -> list[Any] | None:
        held_at, began = self.suspended_at() or self._suspending or held_at, now()
        if held_at in self.locked_at:
            return None
        limit = max(WAITS_SECONDS_MOST, TIMES_LONGEST * self._longest_reading)
        let_go = None if self.held is None else partial(self._let_go, self.held, held_at)
        try:
            with self.reading(), within(limit, otherwise=let_go) if held_at else nullcontext():
                rows = read(self.scratch)
            self._longest_reading = max(self._longest_reading, now() - began)
            return rows
        except UnreadableTarget as error:
            why = str(error)
        except (ContractError, ReaderFailed, MemoryError):
            raise
        except Exception as error:  # the border to the user's reader
            why = described(error)
        self.observation.unreadable = why  # whether it matters is judged at the end
        if held_at and now() - began > min(WAITED_SECONDS, limit):
            self.locked_at.add(held_at)
        return None

    def _let_go(self, held: Callable[[], list[int]], held_at: str) -> None:
        """In another thread, which only sends signals."""
        self.locked_at.add(held_at)
        for pid in held():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.has_ended_suspended = True

    def _read_without_points(self, simulation: RunningJob) -> list[Identity] | None:
        before, simulation.points_off = simulation.points_off, True
        rows = self.read()
        simulation.points_off = before
        return rows

    def deciding(self, simulation: RunningJob, record: CheckpointRecord) -> None:
        self.checkpoint_rows.note(simulation.storage.latest())
        self._decisions += 1
        if (self._decisions <= DECISIONS_READ or not self._decisions % ONE_IN) and self._changed():
            self._look_for_early_rows(simulation, record.checkpoint_id)

    def deploying(self, simulation: RunningJob) -> None:
        """A reader that is locked out while sinks run gets in when they are dead."""
        if self._reads_again:
            latest = simulation.storage.latest()
            self._look_for_early_rows(simulation, 1 + (latest.checkpoint_id if latest is not None else 0))

    def _look_for_early_rows(self, simulation: RunningJob, awaited: int) -> None:
        """`awaited`: the checkpoint that will cover them."""
        rows = self._rows_read = self.read()
        self._reads_again = rows is None
        self.observation.readings += rows is not None
        self.observation.early += [(row, awaited) for row in beyond(simulation.storage.latest(), rows or ())]

    def read_concurrently(self, simulation: RunningJob, point: str) -> None:
        """Reads at any point, with a sink on the stack. A target without `version` is read at protocol steps only, and
        between lines where a claim is about what a reader sees in between.
        """
        if self._version is None and point not in STEPS and (is_line(point) or not self._reads_in_between):
            return
        self.checkpoint_rows.note(simulation.storage.latest())
        if not self._changed():
            return
        latest = simulation.storage.latest()
        rows = self._rows_read = self._read_or_none(simulation)
        if rows is None:
            return
        self.observation.readings += 1
        awaited = 1 + (latest.checkpoint_id if latest is not None else 0)
        self.observation.early += [(row, awaited) for row in beyond(latest, rows)]
        self._compare(set(rows))

    def _read_or_none(self, simulation: RunningJob) -> list[Identity] | None:
        """Raises nothing, since the sink below on the stack would catch it; the reading at the end raises."""
        try:
            return self.read()
        except ReaderFailed:
            return None
        except ContractError:  # it would be the same each time
            simulation.on_point = None
            return None

    def _compare(self, visible: set[Identity]) -> None:
        """Compares with the rows that must become visible at once, and with what the sink's marker says."""
        if self._atomic:
            self.observation.torn += self.checkpoint_rows.torn(visible)
        if self._complete is not None:
            self.observation.claimed += self.checkpoint_rows.overclaimed(self._marked(), visible)

    def _marked(self) -> list[Any]:
        """What the marker calls complete: checkpoint ids, or rows. Nothing where it cannot be read yet."""
        assert self._complete is not None
        self.observation.doubtful_hook = ""
        try:
            marked = list(self._complete(self.scratch))
        except MemoryError:
            raise
        except Exception as error:  # the border to the user's reader; without faults, it must not fail in the end
            self.observation.doubtful_hook = f"complete(scratch) raised {described(error)}"
            return []
        if odd := next((what for what in marked if not is_marked(what)), None):
            self.observation.doubtful_hook = (
                f"complete(scratch) gave {odd!r}, which is neither the id of a checkpoint nor (split, offset) of a row"
            )
            return []
        return marked

    def _changed(self) -> bool:
        if self._version is None:
            return True
        version, before = self._version(self.scratch), self._version_read
        self._version_read = version
        return bool(version != before)

    def is_up_to_date(self) -> bool:
        """Whether the target's present state was read before a decision."""
        return self._version is not None and self._version(self.scratch) == self._version_read

    def injecting(self, simulation: RunningJob, fault: Fault) -> None:
        self.observation.kinds.append(fault.kind)
        if KINDS[fault.kind].suspends:
            self._suspending = fault.point
        # Below the loop that delivered this event stands whichever attempt was suspended before.
        below = simulation.run.__func__.__code__  # type: ignore[attr-defined]
        line = simulation.host.struck_line or line_on_stack(self.files, above=below)
        simulation.host.struck_line = ""
        is_there = line.partition(CALLED_FROM)[0] == fault.point
        self.struck_line = (None if is_there else source_line(fault.point, self.files)) or source_line(line, self.files)

    def resuming(self, simulation: RunningJob, actor: str) -> None:
        rows = self._read_without_points(simulation)
        self._before = None if rows is None else Counter(rows)

    def resumed(self, simulation: RunningJob, actor: str) -> None:
        rows = self._read_without_points(simulation)
        if rows is None or self._before is None:
            return
        added, removed = changed_by_zombie(simulation.storage.latest(), self._before, Counter(rows))
        self.observation.zombie_added += [(actor, row) for row in added]
        self.observation.zombie_removed += [(actor, row) for row in removed]

    def ended(self, simulation: RunningJob) -> None:
        seen = self.observation
        seen.finished, seen.failure = simulation.finished, simulation.failure
        seen.has_checkpoint = simulation.storage.latest() is not None
        simulation.host.reap()
        self._suspending = ""
        if simulation.target is not None:
            simulation.target.come_to_rest()
        read, last = self.is_up_to_date(), self._rows_read
        self.read_at_the_end()  # before the recovery without faults, which would finish what the job left undone
        if self._complete is not None and not seen.unreadable:
            self.checkpoint_rows.note(simulation.storage.latest())
            seen.claimed += self.checkpoint_rows.overclaimed(self._marked(), set(seen.committed))
        if read and last is not None and not seen.unreadable and Counter(last) != Counter(seen.committed):
            seen.doubtful_hook = f"version(scratch) stayed {self._version_read!r} while committed rows changed"
        residue = self.contract.optional("residue")
        lingering = residue is not None and simulation.finished and list(residue(self.scratch))
        if self._evidence is not None and (lingering or Counter(seen.committed) != Counter(self.ledger.expected)):
            seen.evidence = tuple(map(str, self._evidence(self.scratch)))  # before a recovery repairs it
        if residue is not None and lingering:
            simulation.recover_quietly()
            seen.residue = tuple(map(str, residue(self.scratch)))

    def read_at_the_end(self) -> None:
        """Reads when every writer is gone."""
        seen = self.observation
        rows, seen.committed = self._read_to_quiescence()
        seen.rows = rows if shows_more(rows) else []
        seen.seen = None if seen.unreadable else self.contract.seen(self.scratch)

    def _read_to_quiescence(self) -> tuple[list[Any], list[Identity]]:
        """The first reading with the identities of the one before it: its rows, and these. No interval between: every
        writer is gone.
        """
        last: list[Identity] | None = None
        for number in range(1 + READS_MOST):
            self.observation.unreadable = ""
            rows = self.read_rows()
            again = None if rows is None else self.contract.identities(rows)
            # In the simulated shell there is one thread: nothing can happen between two readings.
            if self.scratch.shell == "simulated" or (number and again == last):
                return rows or [], again or []
            last = again
        raise NeverQuiet(f"{READS_MOST} readings of the committed view, no two alike, after every writer was gone")
