"""Derives from the document what several renderers show: defaults, totals, sentences.

No function here knows an output format. A fact that two reports show must read the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, Final

from sinkproof.reports.at_target.target_record import RowSeen, TargetChange, TargetRecord
from sinkproof.reports.document import (
    CanaryResult,
    ClosureResult,
    CodeCoverage,
    Document,
    Finding,
    InsideService,
    Measurement,
    OutwardCalls,
    PointOutcome,
    PowerLosses,
    ShellResult,
    StageResult,
    SubjectResult,
    plain,
)
from sinkproof.reports.finding_groups import by_weight
from sinkproof.reports.number_text import beside as beside
from sinkproof.reports.number_text import count as count
from sinkproof.reports.number_text import judged
from sinkproof.reports.number_text import percent as percent
from sinkproof.reports.number_text import plural as plural
from sinkproof.reports.number_text import seconds_text as seconds_text

TORN_CHECKPOINT: Final = "O4"  # the oracle
NOT_LOST: Final = {TORN_CHECKPOINT: "hidden", "O9": "removed"}
# A symbol and a word for every colour: no report conveys anything by colour alone.
SYMBOLS: Final = {
    "upheld": "✓",
    "violated": "✗",
    "unknown": "?",
    "finding": "△",
    "unfired": "○",
    "none": "·",
}
MEANINGS: Final = {
    "upheld": "upheld",
    "violated": "breaks a claim",
    "finding": "unclaimed flaw",
    "unfired": "never injected",
    "none": "not tried",
}
PICTURED_MOST: Final = 2  # timelines per subject
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

WORST_FIRST: Final = ("violated", "unknown", "upheld")
OPTIONAL_KEYS: Final[Document] = {  # of the document; the values where they are missing
    "complete": True,
    **{key: [] for key in ("notes", "failures", "unkept")},
    **dict.fromkeys(("command", "date"), ""),
    "glossary": {},
}
PARTS_OF_SHELL: Final = {"stages": StageResult, "outcomes": PointOutcome}
WATCHED: Final = {"outward": OutwardCalls, "power": PowerLosses, "inside": InsideService}  # of a shell, or null
PARTS_OF_TARGET: Final = {"changes": TargetChange, "rows": RowSeen}
NO_PARTS: Final[Mapping[str, type]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A subject's numbers over all its shells."""

    kills: int
    kills_kept: int
    schedules_run: int
    schedules_kept: int
    is_whole: bool  # no stage of a campaign has left out anything
    points_reached: int
    points_covered: int  # others, at which a crash leaves a state equal to one from which a run was made
    points_total: int
    seconds: float


def filled(document: Mapping[str, Any]) -> Document:
    """The document with every optional key that is missing set to its default, so that renderers need not check."""
    return {
        **OPTIONAL_KEYS,
        **document,
        "canaries": [_filled(CanaryResult, canary) for canary in document["canaries"]],
        "measurements": [_filled(Measurement, each) for each in document.get("measurements", [])],
        "subjects": [_filled_subject(subject) for subject in document["subjects"]],
    }


def _filled_subject(subject: Mapping[str, Any]) -> Document:
    return {
        "why": "",
        **_filled(SubjectResult, subject),
        "shells": [_filled_shell(shell) for shell in subject["shells"]],
        "code": [_filled(CodeCoverage, file) for file in subject.get("code", [])],
        "findings": [_filled_finding(finding) for finding in by_weight(subject["findings"], subject=subject["name"])],
    }


def _filled_finding(finding: Mapping[str, Any]) -> Document:
    target = finding.get("target")
    return {**_filled(Finding, finding), "target": target and _filled(TargetRecord, target, parts=PARTS_OF_TARGET)}


def _filled_shell(shell: Mapping[str, Any]) -> Document:
    """`closures` has all of them, the one under its own key first."""
    found = [shell["closure"]] if shell["closure"] else []
    closures = [_filled(ClosureResult, closure) for closure in (*found, *shell.get("closures", []))]
    watched = {key: _filled(part, shell[key]) for key, part in WATCHED.items() if shell.get(key)}
    return {**_filled(ShellResult, shell, parts=PARTS_OF_SHELL), "closures": closures, **watched}


def _filled(part: type, given: Mapping[str, Any], *, parts: Mapping[str, type] = NO_PARTS) -> Document:
    """`part`: the class of document.py with the same keys, and their defaults. `parts`: of the items of its lists."""
    lists = {key: [_filled(inner, each) for each in given.get(key, [])] for key, inner in parts.items()}
    return {**_defaults(part), **given, **lists}


@cache
def _defaults(part: type) -> Document:
    values = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory() for each in fields(part)
    }
    return {name: plain(value) for name, value in values.items() if value is not MISSING}


def worst_first(document: Document) -> list[Document]:
    return sorted(document["subjects"], key=lambda subject: WORST_FIRST.index(subject["verdict"]))


def pictured(subject: Document) -> list[Document]:
    """The findings shown with a timeline: the first by weight, and the first of another oracle that breaks a claim.
    Fifty pictures of one flaw show no more than one.
    """
    timed = [finding for finding in subject["findings"] if finding["timeline"]]
    if not timed:
        return []
    others = [finding for finding in timed if finding["claimed"] and finding["oracle"] != timed[0]["oracle"]]
    return [timed[0], *others[: PICTURED_MOST - 1]]


def unpictured(subject: Document) -> list[Document]:
    """All the other findings."""
    shown = pictured(subject) or subject["findings"][:1]
    return [finding for finding in subject["findings"] if not any(finding is other for other in shown)]


def claim_groups(subject: Document) -> list[tuple[str, list[str], str]]:
    """(verdict, claims, why): claims with the same verdict for the same reason are grouped."""
    groups: dict[tuple[str, str], list[str]] = {}
    for claim in subject["claims"]:
        groups.setdefault((claim["verdict"], claim["why"]), []).append(claim["claim"])
    found = [(verdict, names, why) for (verdict, why), names in groups.items()]
    return sorted(found, key=lambda group: WORST_FIRST.index(group[0]))


def meaning(document: Document, kind: str, word: str) -> str:
    """The document's own sentence for one of its words; empty if it has none."""
    return str(document["glossary"].get(kind, {}).get(word, ""))


def totals(subject: Document) -> Totals:
    shells = subject["shells"]
    reached = {point for shell in shells for point in shell["points_reached"]}
    covered = {point for shell in shells for point in shell["points_covered"]} - reached
    known = {point for shell in shells for point in shell["points_known"]} | reached
    return Totals(
        kills=sum(shell["kills"] for shell in shells),
        kills_kept=sum(shell["kills_kept"] for shell in shells),
        schedules_run=sum(shell["schedules_run"] for shell in shells),
        schedules_kept=sum(shell["schedules_kept"] for shell in shells),
        is_whole=all(is_done(stage) for shell in shells for stage in shell["stages"]),
        points_reached=len(reached),
        points_covered=len(covered),
        points_total=max([len(known), *(shell["points_total"] for shell in shells)]),
        seconds=subject["seconds"] or sum(shell["seconds"] for shell in shells),
    )


def doubts(document: Document) -> list[str]:
    """Why this run as a whole is not reliable, whatever the verdicts of its subjects."""
    reasons = [] if document["complete"] else ["the run did not finish"]
    for canary in document["canaries"]:
        if not canary_is_right(canary):
            problem = "a correct control was convicted" if canary["control"] else "a canary escaped"
            reasons.append(f"{problem}: {canary_name(canary)}")
    if not document["subjects"]:
        reasons.append("no subject was certified")
    return [*reasons, *document["notes"]]


def canary_is_right(canary: Document) -> bool:
    """Convicted for its own root cause; for a control: acquitted."""
    return bool(canary["convicted"] != canary["control"])


def canaries_are_right(document: Document) -> bool:
    return all(map(canary_is_right, document["canaries"]))


def canary_outcome(canary: Document) -> str:
    return "convicted" if canary["convicted"] else "acquitted" if canary["control"] else "escaped"


def canary_name(canary: Document) -> str:
    return f"{canary['name']} ({canary['shell']})" if canary["shell"] else str(canary["name"])


def canary_sentence(document: Document) -> str:
    canaries = [canary for canary in document["canaries"] if not canary["control"]]
    controls = [canary for canary in document["canaries"] if canary["control"]]
    if not document["canaries"]:
        return "no canaries were run: nothing shows that this certifier detects faulty sinks"
    convicted = sum(canary["convicted"] for canary in canaries)
    acquitted = sum(not canary["convicted"] for canary in controls)
    seconds = sum(canary["seconds"] for canary in document["canaries"] if not canary["kept_since"])
    text = f"{convicted} of {len(canaries)} convicted of their own sin"
    if controls:
        text += f", {acquitted} of {len(controls)} controls acquitted"
    since = [canary["kept_since"] for canary in document["canaries"] if canary["kept_since"]]
    kept = f"; {count(len(since))} of these results are kept, since {min(since)} at the longest" if since else ""
    return f"{text}, in {seconds_text(seconds)}{kept}"


def summary(document: Document) -> str:
    """One sentence: the number of subjects, their verdicts, the number of crashes. Never "proven"."""
    verdicts = [subject["verdict"] for subject in document["subjects"]]
    parts = [f"{verdicts.count(word)} {word}" for word in WORST_FIRST if word in verdicts]
    all_totals = [totals(subject) for subject in document["subjects"]]
    runs, kept, kills, kills_kept = _sums(all_totals, "schedules_run", "schedules_kept", "kills", "kills_kept")
    real = f" with {judged(kills, kills_kept, 'real kill')}" if kills + kills_kept else ""
    return (
        f"{plural(len(verdicts), 'subject')}{': ' if parts else ''}{', '.join(parts)}, in "
        f"{judged(runs, kept, 'schedule')}{real}, {seconds_text(document['seconds'])}"
    )


def _sums(all_totals: Iterable[Totals], *keys: str) -> list[int]:
    return [sum(getattr(item, key) for item in all_totals) for key in keys]


def headline(document: Document) -> list[tuple[str, str, str]]:
    """The large numbers at the top of the page: (label, number, context)."""
    all_totals = [totals(subject) for subject in document["subjects"]]
    closures = [shell["closure"] for subject in document["subjects"] for shell in subject["shells"] if shell["closure"]]
    canaries = [canary for canary in document["canaries"] if not canary["control"]]
    schedules, kept = _sums(all_totals, "schedules_run", "schedules_kept")
    kills, kills_kept = _sums(all_totals, "kills", "kills_kept")
    steps, known = _sums(all_totals, "points_reached", "points_total")
    states, complete = (sum(each[key] for each in closures) for key in ("states", "complete"))
    within = f"in {plural(len(closures), 'closure')}, {complete} complete"
    return [
        ("schedules run", count(schedules), f"{count(kept)} kept" if kept else ""),
        ("real kills", count(kills), f"{count(kills_kept)} kept" if kills_kept else ""),
        ("steps with a fault", count(steps), f"of {count(known)} found"),
        *([("durable states crashed from", count(states), within)] if closures else []),
        ("canaries convicted", count(sum(canary["convicted"] for canary in canaries)), _of_canaries(canaries)),
    ]


def _of_canaries(canaries: Sequence[Document]) -> str:
    kept = sum(bool(canary["kept_since"]) for canary in canaries)
    return f"of {count(len(canaries))}{f', {count(kept)} kept' if kept else ''}" if canaries else "none were tried"


def is_done(stage: Document) -> bool:
    """Nothing of it was left out, or it does not apply."""
    return bool(stage["finished"] or stage["skipped"])


def grade_text(subject: Document) -> str:
    """The measured grade, then the expected one where it differs."""
    grade, expected = subject["grade"], subject["expected_grade"]
    if expected is None:
        return str(grade)
    return f"{grade} (expected)" if grade == expected else f"{grade} (expected {expected})"


def rows_text(finding: Document, kind: str, *, limit: int = 8) -> str:
    """`kind`: lost or extra. The first rows up to the limit, then the total."""
    rows, total = finding[kind], rows_total(finding, kind)
    if not total:
        return "none"
    shown = ", ".join(row_text(row) for row in rows[:limit])
    rest = total - min(limit, len(rows))
    return f"{shown} … {count(rest)} more, {count(total)} in all" if rest else shown


def rows_named(finding: Document) -> list[tuple[str, str]]:
    """(lost, hidden or extra; rows), where there are any."""
    return [
        (rows_called(finding, kind), rows_text(finding, kind))
        for kind in ("lost", "extra")
        if rows_total(finding, kind)
    ]


def rows_called(finding: Document, kind: str) -> str:
    """`kind`: lost or extra. What a reader of a torn checkpoint does not see is not lost: others of it are seen. What a
    zombie has removed may be there again in the end.
    """
    return NOT_LOST.get(finding["oracle"], kind) if kind == "lost" else kind


def rows_total(finding: Mapping[str, Any], kind: str) -> int:
    return max(finding[f"{kind}_total"] or 0, len(finding[kind]))


def row_text(row: Sequence[object]) -> str:
    return ":".join(str(part) for part in row)


def claimed_text(claimed: bool) -> str:
    """What a finding means for its subject."""
    return "breaks a claim" if claimed else "not claimed"


def verdict_text(verdict: str) -> str:
    return f"{SYMBOLS[verdict]} {verdict.upper()}"


def line_text(line: Document) -> str:
    return f"{line['file']}:{line['number']}"


def visible(text: object) -> str:
    """Text that is safe for a terminal and for XML: control characters are escaped."""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", str(text))
