"""Records each change of the target in one run: which attempt made it, in which call, and what a reader saw then.

It costs a listing of the target's folder at every point and a reading at every change. So only the runs of findings
that a report shows are made again with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.clock import now
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.points import AROUND_CALLS, COORDINATOR_POINTS, is_interior, is_line
from sinkproof.chaos.schedule import Fault
from sinkproof.judging.observer import STEPS, Observer
from sinkproof.reports.at_target.target_record import RowSeen, TargetChange, TargetRecord
from sinkproof.reports.number_text import plural
from sinkproof.workload.ledger import Identity

if TYPE_CHECKING:
    from sinkproof.judging.oracle import Anomaly
    from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
    from sinkproof.reference_engine.shells.simulated.simulation import Simulation

Key = tuple[int, int]  # (actor id, generation)
Files = dict[str, tuple[int, int, int]]  # name -> (inode, size, time of its last change)

CHANGES_MOST: Final = 120
READINGS_MOST: Final = 400  # of one run; a service takes ms for each
READING_SECONDS_MOST: Final = 5.0  # in all
ROWS_MOST: Final = 50  # of one change
ROWS_SEEN_MOST: Final = 8
FILES_SHOWN: Final = 8
NAME_LONGEST: Final = 24  # of a file, in characters: random names are 36 and more


@dataclass(slots=True)
class _Turn:
    """One call of one attempt."""

    key: Key
    call: str
    at: float
    place: int
    goes_on: bool
    did: list[str] = field(default_factory=list)
    appeared: list[Identity] = field(default_factory=list)
    again: list[Identity] = field(default_factory=list)
    vanished: list[Identity] = field(default_factory=list)
    rows: int = 0


class TargetLog:
    """A Watcher in front of an Observer."""

    def __init__(self) -> None:
        self.changes: list[TargetChange] = []

    def attach(self, simulation: Simulation, observer: Observer) -> None:
        """Before the run begins."""
        self.observer, self.changes = observer, []
        self._beside = simulation.on_point  # a concurrent reader
        simulation.watcher, simulation.on_point = self, self.at_point
        self._version = observer.contract.optional("version")
        self._turn: _Turn | None = None
        self._acting: Key = (0, 0)
        self._call = self._held_at = ""
        self._suspended: dict[Key, str] = {}  # with the call in which it was suspended
        self._passed = self._readings = self._turns_left_out = 0
        self._reading_seconds = 0.0
        self._read_until = 0.0
        self._files, self._last_version = self._listed(), self._version_now()
        self._rows = Counter(observer.read() or ())
        self._when_struck, self._files_when_struck = self._rows, self._files
        self._in_the_end, self._files_in_the_end = self._rows, self._files

    # -- what the run calls ---------------------------------------------------------------------------

    def at_point(self, simulation: Simulation, point: str) -> None:
        self._held_at = point if is_interior(point) else ""
        if self._beside is not None:
            self._beside(simulation, point)
        call, _, side = point.partition(".")
        begins = point in AROUND_CALLS and side == "before"
        self._look(simulation, self._acting if begins else simulation.actor, is_step=point in STEPS)
        if begins or simulation.actor != self._acting:
            self._close_turn()
            self._call = call if begins else self._call if simulation.actor == self._acting else ""
        self._acting = simulation.actor

    def injecting(self, simulation: Any, fault: Fault) -> None:
        key, before = simulation.actor, simulation.points_off
        self._held_at = fault.point if is_interior(fault.point) else ""
        simulation.points_off = True
        self._look(simulation, key, is_step=True, ahead=1)  # the fault is in the history already
        rows = self._read_anyway() if self._reads_no_more else self._rows
        simulation.points_off = before
        self._close_turn()
        self._acting = key
        self._when_struck, self._files_when_struck = rows, self._files
        self.changes.append(
            TargetChange(
                at=simulation.now / 1000,
                place=len(simulation.history),
                actor=simulation.names[key[0]],
                generation=self._generation(simulation, key),
                call=self._call,
                did=(f"{fault.kind} at {fault.point}",),
                rows=rows.total(),
                struck=True,
            )
        )
        if KINDS[fault.kind].suspends or fault.kind == "pause":
            self._suspended[key] = self._call
        self.observer.injecting(simulation, fault)

    def deciding(self, simulation: Any, record: CheckpointRecord) -> None:
        self.observer.deciding(simulation, record)

    def deploying(self, simulation: Any) -> None:
        self.observer.deploying(simulation)

    def resuming(self, simulation: Any, actor: str) -> None:
        self.observer.resuming(simulation, actor)

    def resumed(self, simulation: Any, actor: str) -> None:
        self.observer.resumed(simulation, actor)

    def ended(self, simulation: Any) -> None:
        self._held_at = ""
        self._look(simulation, self._acting, is_step=True)
        self._close_turn()
        self._files_in_the_end = self._files  # a quiet recovery may follow, which belongs to no attempt of the run
        self.observer.ended(simulation)
        self._in_the_end = Counter(self.observer.observation.committed)

    # -- what changed ---------------------------------------------------------------------------------

    def _look(self, simulation: Simulation, key: Key, *, is_step: bool, ahead: int = 0) -> None:
        """`key`: the attempt that has run since the last look."""
        steps = self._steps_of(simulation, key)
        files, version = self._listed(), self._version_now()
        did = differences(self._files, files) if key[0] else []
        changed = files != self._files or version != self._last_version
        may_have = changed or (self._version is None and is_step)
        self._files, self._last_version = files, version
        rows = self._read(simulation) if may_have else self._rows
        did += [step for step in steps if not (step.startswith("file.") and self.observer.scratch.path.is_dir())]
        if not (did or rows != self._rows):
            return
        turn = self._turn_of(simulation, key, ahead)
        turn.did += [each for each in did if each not in turn.did]
        for row, count in (rows - self._rows).items():
            turn.appeared += [row] * count
            turn.again += [row] * (rows[row] - max(1, self._rows[row]))
        turn.vanished += (self._rows - rows).elements()
        turn.rows = rows.total()
        self._rows = rows

    def _turn_of(self, simulation: Simulation, key: Key, ahead: int) -> _Turn:
        if self._turn is None or self._turn.key != key:
            self._close_turn()
            place = len(simulation.history) - ahead
            goes_on = key in self._suspended
            call = self._suspended.pop(key, self._call)
            self._turn = _Turn(key, call, simulation.now / 1000, place, goes_on)
            self._names = simulation.names[key[0]], self._generation(simulation, key)
        return self._turn

    def _close_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if len(self.changes) >= CHANGES_MOST:
            self._turns_left_out += 1
            return
        actor, generation = self._names
        self.changes.append(
            TargetChange(
                at=turn.at,
                place=turn.place,
                actor=actor,
                generation=generation,
                call=turn.call,
                did=settled(turn.did),
                appeared=tuple(again_first(turn.appeared, turn.again)[:ROWS_MOST]),
                again=tuple(turn.again[:ROWS_MOST]),
                vanished=tuple(turn.vanished[:ROWS_MOST]),
                appeared_total=_total_if_cut(turn.appeared),
                again_total=_total_if_cut(turn.again),
                vanished_total=_total_if_cut(turn.vanished),
                rows=turn.rows,
                goes_on=turn.goes_on,
            )
        )

    def _steps_of(self, simulation: Simulation, key: Key) -> list[str]:
        """The named steps that it has finished."""
        trace, start = simulation.trace, self._passed
        self._passed = len(trace)
        points = [point for actor, point in trace[start:] if actor == key[0]]
        return [
            point.removesuffix(".after")
            for point in points
            if not (is_line(point) or point in AROUND_CALLS or point in COORDINATOR_POINTS or point.endswith(".before"))
        ]

    def _generation(self, simulation: Simulation, key: Key) -> int:
        begun = [event[2] for event in simulation.history if event[3] == "generation"]
        return begun.index(key[1]) + 1 if key[1] in begun else max(1, len(begun))

    def _read(self, simulation: Simulation) -> Counter[Identity]:
        self._readings += 1
        if self._reads_no_more:
            return self._rows
        self._read_until = simulation.now / 1000
        return self._read_anyway()

    @property
    def _reads_no_more(self) -> bool:
        return self._readings > READINGS_MOST or self._reading_seconds > READING_SECONDS_MOST

    def _read_anyway(self) -> Counter[Identity]:
        if self._held_at and self.observer.locked_at:  # within its calls the sink holds a lock that a reader waits for
            return self._rows
        unreadable, began = self.observer.observation.unreadable, now()
        rows = self.observer.read(held_at=self._held_at)
        self._reading_seconds += now() - began
        self.observer.observation.unreadable = unreadable
        return self._rows if rows is None else Counter(rows)

    def _version_now(self) -> Any:
        return None if self._version is None else self._version(self.observer.scratch)

    def _listed(self) -> Files:
        return listed(self.observer.scratch.path)

    # -- the record ------------------------------------------------------------------------------------

    def record(self, anomaly: Anomaly, sent: Callable[[Identity], str]) -> TargetRecord:
        """`sent`: key=value of a row, as the source has sent it."""
        wrong = list(dict.fromkeys((*anomaly.lost, *anomaly.extra)))[:ROWS_SEEN_MOST]
        return TargetRecord(
            changes=self.changes,
            rows=[
                RowSeen(
                    row=row,
                    sent=sent(row),
                    when_struck=self._when_struck[row],
                    in_the_end=self._in_the_end[row],
                )
                for row in wrong
            ],
            before=_shown(self._files_when_struck),
            after=_shown(self._files_in_the_end),
            rows_before=self._when_struck.total(),
            rows_after=self._in_the_end.total(),
            left_out=self._left_out(),
        )

    def _left_out(self) -> list[str]:
        turns = self._turns_left_out
        said = [f"{plural(turns, 'change')} after the first {CHANGES_MOST}"] if turns else []
        often = f"the reader was asked {READINGS_MOST} times"
        why = often if self._readings > READINGS_MOST else f"reading has taken {self._reading_seconds:.0f} s"
        return [*said, f"which rows changed after {self._read_until:.3f} s: {why}"] if self._reads_no_more else said


def again_first(appeared: list[Identity], again: list[Identity]) -> list[Identity]:
    """In this order both may be cut at one length, and `again` stays a part of `appeared`."""
    return [*again, *(Counter(appeared) - Counter(again)).elements()]


def _total_if_cut(rows: list[Identity]) -> int | None:
    return len(rows) if len(rows) > ROWS_MOST else None


def listed(folder: Path) -> Files:
    """All files below it. One that is removed meanwhile is left out."""
    found: Files = {}
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            status = path.lstat()
        except OSError:
            continue
        if not path.is_dir():
            found[str(path.relative_to(folder))] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def differences(before: Files, after: Files) -> list[str]:
    """In words."""
    gone = {before[name]: name for name in before.keys() - after.keys()}  # the number of an inode is used again
    said, renamed = [], set()
    for name, new in sorted(after.items()):
        old = before.get(name)
        if new != old and new in gone:
            renamed.add(gone[new])
            said.append(f"renames {short(gone[new])} to {short(name)}{', and replaces it' if old else ''}")
        elif old is None:
            said.append(f"creates {short(name)}")
        elif old[0] != new[0]:
            said.append(f"replaces {short(name)}")
        elif old[1] != new[1]:
            said.append(f"writes {short(name)}" if new[1] > old[1] else f"cuts {short(name)}")
        elif old != new:
            said.append(f"overwrites {short(name)}")
    return said + [f"removes {short(name)}" for name in sorted(before.keys() - after.keys() - renamed)]


def settled(did: list[str]) -> list[str]:
    """A file that is created is written, too."""
    created = {each.removeprefix("creates ") for each in did if each.startswith("creates ")}
    return [each for each in did if each.removeprefix("writes ").removeprefix("overwrites ") not in created]


def short(name: str) -> str:
    """The beginning and the end of a long name."""
    if len(name) <= NAME_LONGEST:
        return name
    kept = (NAME_LONGEST - 1) // 2
    return f"{name[:kept]}…{name[-kept:]}"


def _shown(files: Files) -> list[str]:
    names = sorted(files)
    shown = [f"{short(name)} ({files[name][1]} bytes)" for name in names[:FILES_SHOWN]]
    return [*shown, *([f"and {len(names) - FILES_SHOWN} more"] if names[FILES_SHOWN:] else [])]
