"""An invented certificate that uses every part of the document, for tests of renderers.

It holds one subject of each verdict; one name contains markup, which every renderer must escape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sinkproof.reports.at_target.target_record import RowSeen, TargetChange, TargetRecord
from sinkproof.reports.document import (
    SCHEMA,
    CanaryResult,
    ClaimResult,
    ClosureResult,
    Document,
    Finding,
    Measurement,
    PointOutcome,
    ShellResult,
    SourceLine,
    SubjectResult,
    TimelineEvent,
    plain,
)

AROUND: Final = ("open", "write", "snapshot", "acknowledge", "notify_complete")
INSIDE: Final = ("fence", "begin", "pre_commit", "commit", "abort")
POINTS: Final = tuple(f"{call}.{side}" for call in AROUND + INSIDE for side in ("before", "after"))
NAME_HOSTILE: Final = 'sinks/my_sink.py:Evil<b>&"Sink'
REPLAY: Final = "sinkproof replay 'sink[0].commit.after#1=kill' 'sinks/my_sink.py:Evil<b>&\"Sink' --on process"
SENTENCE: Final = "any number of whole-job crashes of this job, in these orders, at fixed time, names opaque (audited)"
SCHEDULE: Final = "sink[0].commit.after#1=kill"
GLOSSARY: Final = {
    "points": {"commit.after": "the transaction is committed; the sink has not noted it"},
    "faults": {"kill": "the acting attempt is killed", "stop": "the attempt is stopped, and goes on as a zombie"},
    "oracles": {"O2": "a row is there more often than the ledger has it"},
    "claims": {"NO_DUPLICATES": "in the end no row is there twice"},
    "root_causes": {"R1": "data and progress marker not atomic", "R5": "premature publication"},
}


def sample() -> Document:
    """An upheld subject, a violated one with findings, an unknown one."""
    document = {
        "schema": SCHEMA,
        "verdict": "violated",
        "complete": True,
        "environment": {"sinkproof": "0.1.0", "python": "3.11.7", "seed": 7, "machine": {"cores": 2}},
        "command": "sinkproof certify files/two-phase 'sinks/my_sink.py:Evil<b>&\"Sink' --seed 7",
        "glossary": GLOSSARY,
        "seconds": 41.7,
        "notes": [],
        "failures": [],
        "measurements": [
            Measurement(name="soak on Spark", value="1,310,000 rows", note="112 kills in an hour, every row once"),
            Measurement(name="schedules per second", value="5,838", note="memory/two-phase, one core"),
        ],
        "canaries": canaries(),
        "subjects": [upheld(), violated(), unknown()],
    }
    return dict(plain(document))


def shell(name: str, *, faults: tuple[str, ...], worse: dict[str, str] | None = None) -> ShellResult:
    """A shell that injected every fault at every point; `worse`: outcomes that are not "upheld"."""
    bad = worse or {}
    lines = tuple(f"line(two_phase.py:{number})" for number in range(40, 58))
    return ShellResult(
        shell=name,
        schedules_run=4812,
        schedules_in_bound=4812,
        kills=4790,
        seconds=1.9,
        points_reached=POINTS,
        points_total=len(POINTS),
        points_known=POINTS,
        lines_reached=len(lines),
        lines_total=len(lines),
        kills_by_point=dict.fromkeys(POINTS, 24),
        outcomes=[
            PointOutcome(point=point, fault=fault, runs=24, outcome=bad.get(f"{point}={fault}", "upheld"))
            for point in POINTS + lines
            for fault in faults
        ],
        rows_committed=192_480,
        closure=ClosureResult(
            states=212, complete=True, sentence=SENTENCE, depth=4, merges_audited=20, shifts=(1, 8, 97)
        ),
        closures=[
            ClosureResult(states=9, complete=False, of="crashes with a partial death", depth=2, why="the budget ended")
        ],
    )


def upheld() -> SubjectResult:
    return SubjectResult(
        name="files/two-phase",
        verdict="upheld",
        grade="exactly-once",
        expected_grade="exactly-once",
        claimed=["EXACTLY_ONCE", "NO_RESIDUE"],
        why="upheld in 9,580 crashes",
        claims=[
            ClaimResult(claim=name, verdict="upheld", why="no finding in 9,624 schedules")
            for name in ("NO_LOSS", "NO_DUPLICATES", "NO_EARLY_ROWS", "FENCES_ZOMBIES", "NO_RESIDUE")
        ],
        shells=[shell("simulated", faults=("kill", "lose", "stop")), shell("process", faults=("kill", "stop"))],
    )


def timeline() -> list[TimelineEvent]:
    """Events of a job, with a kill between an effect and its record."""
    old, new = "(generation 700001)", "(generation 700002)"
    entries = [
        (0.002, "coordinator", "generation", False),
        (0.011, f"source[0] {old}", "acknowledged: 1", False),
        (0.016, f"sink[0] {old}", "acknowledged: 1", False),
        (0.021, f"sink[1] {old}", "acknowledged: 1", False),
        (0.022, "coordinator", "complete: 1", False),
        (0.026, f"sink[0] {old}", "commit.after: kill", True),
        (0.030, f"sink[1] {old}", "acknowledged: 2", False),
        (0.211, "coordinator", "generation", False),
        (0.215, f"sink[0] {new}", "open: commits part-0-1 again", False),
        (0.230, f"source[0] {new}", "acknowledged: 3", False),
        (0.234, f"sink[1] {new}", "declined: 3", False),
        (0.240, f"source[0] {new}", "acknowledged: 4", False),
        (0.244, f"sink[0] {new}", "acknowledged: 4", False),
        (0.246, f"sink[1] {new}", "acknowledged: 4", False),
        (0.250, "coordinator", "complete: 4", False),
    ]
    return [TimelineEvent(at=at, actor=actor, what=what, struck=struck) for at, actor, what, struck in entries]


def target() -> TargetRecord:
    """The killed attempt has published ten rows, the next one publishes them again."""
    ten = [(0, offset) for offset in range(10)]
    first = TargetChange(
        at=0.026, place=5, actor="sink[0]", generation=1, call="notify_complete", did=["commit"], appeared=ten, rows=10
    )
    struck = replace(first, place=6, did=["kill at commit.after"], appeared=(), struck=True)
    second = replace(first, at=0.214, place=8, generation=2, call="", did=["creates part-0-2"], again=ten, rows=20)
    return TargetRecord(
        changes=[first, struck, second],
        rows=[RowSeen(row=row, sent=f"k0=v{row[1]}", when_struck=1, in_the_end=2) for row in ten[:2]],
        before=["part-0-1 (88 bytes)"],
        after=["part-0-1 (88 bytes)", "part-0-2 (88 bytes)"],
        rows_before=10,
        rows_after=20,
    )


def violated() -> SubjectResult:
    return SubjectResult(
        name=NAME_HOSTILE,
        verdict="violated",
        grade="at-least-once",
        expected_grade="exactly-once",
        claimed=["EXACTLY_ONCE"],
        why="a crash after commit.after repeats ten rows",
        claims=[
            ClaimResult(claim="NO_LOSS", verdict="upheld", why="no row was lost"),
            ClaimResult(claim="NO_DUPLICATES", verdict="violated", why="10 rows are visible twice"),
        ],
        shells=[
            shell(
                "process",
                faults=("kill", "stop"),
                worse={"commit.after=kill": "violated", "abort.after=kill": "unfired", "begin.after=kill": "finding"},
            )
        ],
        findings=[
            Finding(
                oracle="O7",
                claimed=False,
                claim="NO_RESIDUE",
                shell="process",
                schedule="sink[1].begin.after#1=kill",
                why="a staged file stays behind for ever",
                replay="sinkproof replay 'sink[1].begin.after#1=kill' files/evil",
            ),
            Finding(
                oracle="O2",
                claimed=True,
                claim="NO_DUPLICATES",
                shell="process",
                schedule=SCHEDULE,
                extra=[(0, offset) for offset in range(10)],
                why="rows 0:0 to 0:9 were committed again by the next attempt",
                replay=REPLAY,
                root_cause="R1 data and progress marker not atomic",
                timeline=timeline(),
                steps=["open.after", "notify_complete.before", "commit.before", "commit.after"],
                target=target(),
                line=SourceLine(
                    file="my_sink.py",
                    number=42,
                    text="    os.replace(pending, final)",
                    around=("   41  final = name", "   42      os.replace(pending, final)"),
                    function="EvilSink.publish",
                    path="sinks/my_sink.py",
                    called_from=("my_sink.py:57 in EvilSink.notify_complete: self.publish(name)",),
                ),
            ),
        ],
    )


def unknown() -> SubjectResult:
    silent = shell("process", faults=("kill",))
    parts = {name: getattr(silent, name) for name in silent.__dataclass_fields__}
    few = {
        "points_reached": POINTS[:6],
        "outcomes": silent.outcomes[:6],
        "lines_reached": None,
        "lines_total": None,
        "closure": ClosureResult(states=64, complete=False, why="the state grows without bound"),
        "notes": ["interior not explored: the sink is a command"],
        "schedules_run": 140,
        "kills": 137,
    }
    return SubjectResult(
        name="--command './my-sink --flag'",
        verdict="unknown",
        grade="unknown",
        claimed=["AT_LEAST_ONCE"],
        why="the point commit.before was never reached",
        claims=[ClaimResult(claim="NO_LOSS", verdict="unknown", why="commit.before was never reached")],
        shells=[ShellResult(**{**parts, **few})],
    )


def canaries() -> list[CanaryResult]:
    causes = [
        ("marker after data", "R1", "O2", "sink[0].record.before#1=kill"),
        ("forgets pending on restore", "R6", "O1", "sink[0].notify_complete.before#1=kill"),
        ("publishes in snapshot", "R5", "O3", "no-fault"),
    ]
    convicted = [
        CanaryResult(
            name=name, root_cause=cause, convicted=True, oracle=oracle, schedule=schedule, seconds=0.12, shell=where
        )
        for name, cause, oracle, schedule in causes
        for where in ("simulated", "process")
    ]
    control = CanaryResult(name="two-phase", root_cause="", convicted=False, seconds=0.2, shell="process", control=True)
    return [*convicted, control]
