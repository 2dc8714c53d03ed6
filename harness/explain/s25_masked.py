"""S25: rows are in the target at once, one marker reveals them, and rows that no marker covers are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sinkproof.execution.recorded_job import Identity, record_job
from sinkproof.explain.demonstration import Scene, rows_named
from sinkproof.explain.models.simulated_masked_targets import InLog, InTable
from sinkproof.explain.small_jobs import LETTERS_TO_SINK, MemoryTarget, run_job
from sinkproof.explain.timeline import RECOVERY, timeline
from sinkproof.sink_adapters.files import file_readers as readers
from sinkproof.sink_adapters.files.disk_memory import MemoryDisk
from sinkproof.sink_adapters.files.file_system import Files
from sinkproof.sink_adapters.files.masked_files import MaskedFiles
from sinkproof.sink_adapters.files.row_formats import JSON_LINES
from sinkproof.sink_adapters.strategies.masked import MaskedSink

LESSON: Final = (
    "rows are neither moved nor sent twice: the marker is one fact, written in one step, and readers honour it. So a "
    "checkpoint becomes visible as a whole, across all subtasks; the price is a reader that knows the marker."
)
BEFORE_REVEAL: Final = "sink[0].reveal.before#2=kill-job"


class InMemory(MemoryTarget):
    name: Final = "memory"

    def __init__(self) -> None:
        super().__init__(strategy="masked")

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


MaskedExample = InMemory | InFiles | InLog | InTable


def scenes() -> tuple[Scene, ...]:
    makers: tuple[Callable[[], MaskedExample], ...] = (InMemory, InFiles, InLog, InTable)
    return tuple(scene for make in makers for scene in (_revealed(make()), _crashed(make())))


def _revealed(target: MaskedExample) -> Scene:
    """Whenever the reader reads, all rows in the target are listed, too."""
    held: list[tuple[list[Identity], list[Identity]]] = []

    def read() -> list[Identity]:
        held.append((target.held(), target.read()))
        return held[-1][1]

    run = record_job(LETTERS_TO_SINK, target.sink, read=read)
    staged, visible = held[0]
    last = run.seen.visible_when_deciding[run.seen.decided[-1].checkpoint_id]
    until = run.points("reveal.after")[1].at_ms
    scene = Scene(f"In {target.name}: hidden, then visible")
    scene.ran = f"source x2 -> masked sink x2 into {target.name}"
    scene.steps = timeline(run, "writes", "complete", points=["reveal.after"], until=until)
    scene.fact(f"when checkpoint 1 was decided the target held {rows_named(staged)}", staged)
    scene.fact(f"a reader saw {rows_named(visible)}; at the last decision {rows_named(sorted(last))}", visible)
    scene.fact(f"markers in the end: {', '.join(target.markers())}", target.markers())
    scene.check("rows were in the target before they were visible", (True, []), (bool(staged), visible))
    scene.check("later a reader sees some", True, bool(last))
    scene.check_each_row_once(run)
    scene.check("no row stays hidden", [], target.hidden())
    return scene.finish(f"{len(run.visible)} rows are visible in the end, hidden ones: {len(target.hidden())}")


def _crashed(target: MaskedExample) -> Scene:
    """Checkpoint 2 is complete, and its marker is not written; later rows are staged, too."""
    run = run_job(target=target, probe=lambda: (target.held(), target.hidden()), schedule=BEFORE_REVEAL)
    held, hidden = run.seen.probed_at_fault[0]
    decided = max(run.complete_at_crash)
    covered = set(run.covered(decided))
    promised, others = sorted(covered - set(run.seen.visible_at_fault[0])), sorted(set(held) - covered)
    again = set(run.rows_written(generation=2))
    log = isinstance(target, InLog)
    since, until = run.crash_ms - 6, run.points("collect.after")[-1].at_ms
    scene = Scene(f"In {target.name}: a crash before the marker of checkpoint {decided}")
    scene.ran = f"the same job, {BEFORE_REVEAL}"
    scene.steps = timeline(run, *RECOVERY, points=["reveal.after", "collect.after"], since=since, until=until)
    scene.fact(f"in the target at the crash, and hidden: {', '.join(hidden)}", hidden)
    scene.fact(
        f"of these, covered by checkpoint {decided}: {rows_named(promised)}; never to be revealed: "
        f"{rows_named(others)}",
        [promised, others],
    )
    scene.check("some rows were covered, some were not", (True, True), (bool(promised), bool(others)))
    scene.check("the covered rows are not written again", [], sorted(again & covered))
    scene.check("the others are", [], sorted(set(others) - again))
    scene.check_each_row_once(run)
    scene.check(
        "rows that stay hidden for ever remain in a log" if log else "each row is in the target once in the end",
        sorted([*run.visible, *(others if log else [])]),
        target.held(),
    )
    return scene.finish(
        f"the next attempts reveal {rows_named(promised)}; {rows_named(others)} "
        f"{'stay in the log, where no marker will ever cover them' if log else 'are collected'}, and are written again"
    )
