"""A log of the runs that really take place, written where a run is played, whatever counts them afterwards."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.task import ShellOutcome
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import Fault, parse
from sinkproof.chaos.shared.event_log import EventLog, EventLogReader, Happening
from sinkproof.chaos.shared.point_counts import read_counts
from sinkproof.execution.process_runner import ProcessRunner
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.execution.spark_runner import SparkRunner
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.judging.observer import Observer
from sinkproof.reference_engine.shells.spark.deployment import SparkRun
from sinkproof.reference_engine.shells.spark.run_folder import RunFolder
from sinkproof.reports.document import Document, plain
from sinkproof.reports.report_facts import filled
from sinkproof.subject.loading import load

LOGS: list[EventLog] = []  # the log of the test that is running: forked processes append to it, too
ENDED = {"checkpoint.persist.after", "checkpoint.abort"}


@contextmanager
def logged(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLogReader]:
    """Inside, every run of every runner is logged: how it was played, and the crash that it resumes from."""
    LOGS[:] = [EventLog(path)]

    def logs(runner: type[ScheduleRunner]) -> None:
        play = runner.play

        def play_and_log(self: ScheduleRunner, simulation: Any, *, trace_lines: bool = False) -> None:
            play(self, simulation, trace_lines=trace_lines)
            host = getattr(self, "host", None)
            LOGS[0].record("run", **shown(simulation), kills=0 if host is None else host.kills)

        monkeypatch.setattr(runner, "play", play_and_log)

    logs(ScheduleRunner)
    logs(ProcessRunner)
    logs_on_spark(monkeypatch)
    freeze, thaw = JobWorld.freeze, JobWorld.thaw_target

    def freeze_and_keep(self: JobWorld) -> JobState:
        state = freeze(self)
        KEPT[id(state.target)] = state.target, state.path[-1].point
        return state

    def thaw_and_log(self: JobWorld, target: Any) -> None:
        thaw(self, target)
        if id(target) in KEPT:
            LOGS[0].record("crash", point=KEPT[id(target)][1])

    monkeypatch.setattr(JobWorld, "freeze", freeze_and_keep)
    monkeypatch.setattr(JobWorld, "thaw_target", thaw_and_log)
    reader = EventLogReader(path)
    try:
        yield reader
    finally:
        reader.close()
        KEPT.clear()


def logs_on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """From what the processes of a run have written themselves: its events, and the counts of points."""
    new_run, observe, folders = SparkRunner.new_run, SparkRunner._observe, []

    def new_run_and_keep(self: SparkRunner, recipe: str, **arguments: Any) -> SparkRun:
        run = new_run(self, recipe, **arguments)
        folders.append(run.folder)
        return run

    def observe_and_log(self: SparkRunner, observer: Observer, story: Sequence[Happening], *, failure: str) -> None:
        observe(self, observer, story, failure=failure)
        counts = {file.name: read_counts(file) for file in RunFolder(folders[-1]).counts_path("x").parent.iterdir()}
        names = {name: points for name, points in counts.items() if points}
        LOGS[0].record(
            "run",
            **made_of(observer),
            struck=[(fault.point, fault.kind) for each in story if each["what"] == "struck" for fault in faults(each)],
            points=sorted({point for points in names.values() for point in points}),
            sources=sum("source" in name for name in names),
            sinks=sum("sink" in name for name in names),
            restarts=[each["what"] for each in story].count("generation") - 1,
            pending=0,  # nothing on Spark counts them
            moved=[],
            kills=sum(each["what"] == "ended" and os.WIFSIGNALED(each["status"]) for each in story),
        )

    monkeypatch.setattr(SparkRunner, "new_run", new_run_and_keep)
    monkeypatch.setattr(SparkRunner, "_observe", observe_and_log)


def faults(struck: Happening) -> Sequence[Fault]:
    return parse(struck["fault"]).faults


KEPT: dict[int, tuple[Any, str]] = {}  # the copies that crashes have left, and where


def shown(simulation: Any) -> dict[str, Any]:
    """What one run has shown of itself by now. A run that ends in a state of an earlier one ends here."""
    passed = [(simulation.names[actor], point) for actor, point in simulation.trace]
    actors = {name for name, _ in passed}
    return {
        **made_of(simulation.watcher),
        "struck": [(fault.point, fault.kind) for fault in simulation.faults.injected],
        "points": sorted({point for _, point in passed}),
        "sources": len([name for name in actors if name.startswith("source")]),
        "sinks": len([name for name in actors if name.startswith("sink")]),
        "restarts": [what for *_, what, _ in simulation.history].count("generation") - 1,
        "pending": most_pending(passed),
        "moved": [fault.kind for fault in simulation.faults.injected if fault.kind == "expire"],
    }


def made_of(observer: Observer) -> dict[str, int]:
    """The sizes of what was committed."""
    rows = [row[:2] for row in observer.observation.committed]
    made = [observer.ledger.rows[row] for row in {*rows} & observer.ledger.rows.keys()]
    return {
        "committed": len(rows),
        "rows": len(made),
        "bytes": sum(len(row.key.encode()) + len(row.value.encode()) for row in made),
        "keys": len({row.key for row in made}),
    }


def most_pending(passed: Sequence[tuple[str, str]]) -> int:
    """Checkpoints begun and neither durable nor aborted, by the points of the coordinator."""
    pending, most = 0, 0
    for _, point in passed:
        pending = 0 if point == "generation.after" else pending
        pending += (point == "checkpoint.trigger") - (point == "checkpoint.persist.after")
        most = max(most, pending)
    return most


def certificate(subject: str, outcome: ShellOutcome) -> Document:
    """The subject's part."""
    progress = SubjectProgress(load(subject), shells=[outcome.result], findings=[*outcome.findings])
    progress.lines_passed |= outcome.lines_passed
    progress.lines_struck |= outcome.lines_struck
    progress.add_code(outcome)
    document: Document = filled({"canaries": [], "subjects": [plain(judge_subject(progress))]})["subjects"][0]
    return document


def numbers_beyond(document: dict[str, Any], log: Sequence[Happening]) -> list[str]:
    """Every number of a shell's part of the certificate that is larger than what the log adds up to."""
    runs = [each for each in log if each["what"] == "run"]
    crashes = Counter(each["point"] for each in log if each["what"] == "crash")
    struck = Counter(point for each in runs for point, _ in each["struck"])
    kinds = Counter((row_of(point), kind) for each in runs for point, kind in {*map(tuple, each["struck"])})
    kinds.update((row_of(point), "kill-job") for point in crashes.elements())
    passed = {point for each in runs for point in each["points"]}
    lines = {point for point in passed if is_line(point)}
    largest = {key: max(each[key] for each in runs) for key in SIZES}
    stages = document["stages"]
    outcomes = [each for each in document["outcomes"] if each["fault"] != READER]
    left = sum(max(0, stage["planned"] - stage["run"]) for stage in stages)
    most: dict[str, Any] = {
        "schedules_run": len(runs),
        "schedules_kept": 0,  # nothing was
        "kills_kept": 0,
        "schedules_joined": sum(not each["committed"] for each in runs),
        "schedules_in_bound": document["schedules_run"] + left,
        "kills": sum(each["kills"] for each in runs),
        "rows_committed": sum(each["committed"] for each in runs),
        "points_total": len(document["points_known"]),
        "lines_reached": len([line for line in lines if struck[line] + crashes[line]]),
        "lines_covered": len([line for line in lines if not struck[line] + crashes[line]]),
        "stages": len(runs),
        **{f"kills at {point}": struck[point] + crashes[point] for point in document["kills_by_point"]},
        **{f"{each['point']}={each['fault']}": kinds[each["point"], each["fault"]] for each in outcomes},
        **{f"bounds: {key}": largest[logged] for key, logged in BOUNDS.items()},
    }
    closures = [*([document["closure"]] if document["closure"] else []), *document["closures"]]
    said: dict[str, Any] = {
        **{key: document[key] or 0 for key in most if key in document},
        "stages": sum(stage["run"] for stage in stages),
        **{f"kills at {point}": times for point, times in document["kills_by_point"].items()},
        **{
            f"{each['point']}={each['fault']}": each["runs"] for each in document["outcomes"] if each["fault"] != READER
        },
        **{f"bounds: {key}": document["bounds"][key] for key in BOUNDS},
        **{f"states of {each['of']}": each["states"] for each in closures},
        **{f"audits of {each['of']}": each["merges_audited"] or 0 for each in closures},
    }
    most |= {f"states of {each['of']}": sum(crashes.values()) for each in closures}
    most |= {f"audits of {each['of']}": len(runs) for each in closures}
    unlogged = sorted(key for key, value in document.items() if type(value) is int and key not in most | NO_NUMBERS)
    unseen = {*document["points_reached"]} - {point for point, times in (struck + crashes).items() if times}
    return [
        *(f"{key}: {value}, logged {most[key]}" for key, value in said.items() if value > most[key]),
        *(f"{key}: is not derived from the log" for key in unlogged),
        *(f"{point}: reached, and not struck in the log" for point in unseen),
    ]


READER = "watch"
NO_NUMBERS: dict[str, Any] = {"lines_total": 0, "seconds": 0}  # of the files, and of the clock
BOUNDS = {
    **{key: key for key in ("sources", "sinks", "rows", "bytes", "keys", "restarts")},
    "checkpoints_pending": "pending",
}
SIZES = tuple(BOUNDS.values())


def row_of(point: str) -> str:
    return f"lines of {point[len('line(') :].rpartition(':')[0]}" if is_line(point) else point
