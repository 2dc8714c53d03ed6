"""Compares two certificates: a pure function of two documents, and its text.

The second one is worse if it upholds less or if less was looked at: a verdict or grade fell, a new claim is broken, a
claim is no longer made, a known step or more lines have no fault, more statements never ran, a stage or a closure is no
longer finished, a subject is missing, a canary escapes. Numbers of schedules and kills change with the load: they,
other times and flaws that no claim covers are reported, but do not make it worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.ci.violations import faults_of
from sinkproof.reports.coverage_text import closure_facts, stage_coverage
from sinkproof.reports.document import Document

# The best first.
VERDICTS: Final = ("upheld", "unknown", "violated")
GRADES: Final = ("exactly-once", "effectively-once", "at-least-once", "at-most-once", "unknown", "broken")
ENDINGS: Final = ("finished", "did not finish")
HEADINGS: Final = ("✗ worse", "✓ better", "changed")  # of groups of subjects
SEARCHES: Final = ("not found", "found")
REPORTED_RATIO: Final = 1.5  # smaller differences of times, and of numbers of schedules, are noise
FINDINGS_SHOWN: Final = 4  # of one subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`before` or `after` is None where one certificate lacks it."""

    what: str
    before: Any
    after: Any
    worse: bool = False
    better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding, by oracle and place, that only one of the two certificates has."""

    oracle: str
    claimed: bool
    place: str
    why: str
    replay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectChange:
    name: str
    changes: Sequence[Change]
    findings_new: Sequence[FindingChange] = ()
    findings_gone: Sequence[FindingChange] = ()

    @property
    def worse(self) -> bool:
        return any(change.worse for change in self.changes)

    @property
    def better(self) -> bool:
        return any(change.better for change in self.changes) and not self.worse


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`worse`: why the second certificate is worse, one line each; empty if it is not."""

    run: Sequence[Change]
    subjects: Sequence[SubjectChange]
    canaries: Sequence[Change]
    worse: Sequence[str]


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    one, other = facts.filled(before), facts.filled(after)
    run = _run_changes(one, other)
    subjects = [
        _subject_change(name, old, new) for name, old, new in _paired(one["subjects"], other["subjects"], ("name",))
    ]
    canaries = _canary_changes(one, other)
    reasons = [sentence(change) for change in (*run, *canaries) if change.worse]
    reasons += [
        f"{subject.name}: {sentence(change)}" for subject in subjects for change in subject.changes if change.worse
    ]
    return Comparison(run=run, subjects=subjects, canaries=canaries, worse=reasons)


def sentence(change: Change) -> str:
    """One change in words."""
    if change.after is None:
        return f"{change.what}: {change.before} before, nothing now"
    if change.before is None:
        return f"{change.what}: {change.after}, nothing before"
    return f"{change.what}: {change.before} → {change.after}"


def render(comparison: Comparison) -> str:
    lines = [sentence(change) for change in comparison.run]
    for heading in HEADINGS:
        subjects = [subject for subject in comparison.subjects if _heading(subject) == heading]
        lines += ["", heading, *(line for subject in subjects for line in _subject_lines(subject))] if subjects else []
    same = sum(not _heading(subject) for subject in comparison.subjects)
    lines += ["", f"{facts.plural(same, 'subject')} the same"] if same else []
    canaries = [f"  {sentence(change)}" for change in comparison.canaries]
    lines += ["", "canaries", *canaries] if canaries else []
    reasons = [f"  {reason}" for reason in comparison.worse]
    lines += [
        "",
        "The second certificate is worse:" if reasons else "The second certificate is not worse than the first.",
    ]
    lines += reasons
    return "\n".join(map(facts.visible, lines)).strip() + "\n"


def _heading(subject: SubjectChange) -> str:
    """Empty if it is the same in both."""
    worse, better, changed = HEADINGS
    if subject.worse or subject.better:
        return worse if subject.worse else better
    return changed if subject.changes or subject.findings_new or subject.findings_gone else ""


def _subject_lines(subject: SubjectChange) -> list[str]:
    lines = [f"  {subject.name}", *(f"    {sentence(change)}" for change in subject.changes)]
    for word, findings in (("new", subject.findings_new), ("gone", subject.findings_gone)):
        for finding in findings[:FINDINGS_SHOWN]:
            kind = facts.claimed_text(finding.claimed)
            lines.append(f"    {word}: {finding.oracle} ({kind}) at {finding.place}: {finding.why}")
            lines += [f"         {finding.replay}"] if word == "new" else []
        if len(findings) > FINDINGS_SHOWN:
            lines.append(f"    {word}: {facts.plural(len(findings) - FINDINGS_SHOWN, 'more finding')}")
    return lines


def _run_changes(one: Document, other: Document) -> list[Change]:
    endings = [ENDINGS[not each["complete"]] for each in (one, other)]
    changes = [
        _ranked("verdict", one["verdict"], other["verdict"], ranks=VERDICTS),
        _ranked("the run", *endings, ranks=ENDINGS),
        *_time(one["seconds"], other["seconds"]),
    ]
    return [change for change in changes if change.before != change.after]


def _subject_change(name: str, old: Document | None, new: Document | None) -> SubjectChange:
    if old is None or new is None:
        change = Change(
            what="certified",
            before=old and f"{old['verdict']}, {old['grade']}",
            after=new and f"{new['verdict']}, {new['grade']}",
            worse=new is None or new["verdict"] == "violated",
        )
        return SubjectChange(name=name, changes=[change])
    changes = [
        _ranked("verdict", old["verdict"], new["verdict"], ranks=VERDICTS),
        _ranked("grade", old["grade"], new["grade"], ranks=GRADES),
        *_claim_changes(old, new),
        *_broken_claims(old, new),
        *_coverage(old, new),
        *_code(old, new),
        *_time(facts.totals(old).seconds, facts.totals(new).seconds),
    ]
    return SubjectChange(
        name=name,
        changes=[change for change in changes if change.before != change.after],
        findings_new=_only_in(new, old),
        findings_gone=_only_in(old, new),
    )


def _ranked(what: str, before: str, after: str, *, ranks: Sequence[str]) -> Change:
    step = ranks.index(after) - ranks.index(before)
    return Change(what=what, before=before, after=after, worse=step > 0, better=step < 0)


def _claim_changes(old: Document, new: Document) -> list[Change]:
    """Claims and their verdicts. A claim that is no longer made was not looked at."""
    changes = []
    for claim, before, after in _paired(old["claims"], new["claims"], ("claim",)):
        if before is not None and after is not None:
            changes.append(_ranked(claim, before["verdict"], after["verdict"], ranks=VERDICTS))
        else:
            texts = [value and f"claimed, {value['verdict']}" for value in (before, after)]
            changes.append(Change(what=claim, before=texts[0], after=texts[1], worse=after is None))
    return changes


def _broken_claims(old: Document, new: Document) -> list[Change]:
    """Oracles with a finding against a claim in only one of the two; the findings say where."""
    found = [{finding["oracle"] for finding in subject["findings"] if finding["claimed"]} for subject in (old, new)]
    return [
        _ranked(f"{oracle} against a claim", *(SEARCHES[oracle in each] for each in found), ranks=SEARCHES)
        for oracle in sorted(found[0] ^ found[1])
    ]


def _coverage(old: Document, new: Document) -> list[Change]:
    changes = []
    for shell, before, after in _paired(old["shells"], new["shells"], ("shell",)):
        if before is None or after is None:
            texts = [value and facts.plural(_judged(value)["schedules"], "schedule") for value in (before, after)]
            changes.append(Change(what=f"{shell} shell", before=texts[0], after=texts[1], worse=after is None))
            continue
        examined = [{*each["points_reached"], *each["points_covered"]} for each in (before, after)]
        lost = sorted((examined[0] - examined[1]) & set(after["points_known"]))
        if lost:
            was, now = map(len, examined)
            what = f"{shell} shell, steps with a fault (no longer {', '.join(lost)})"
            changes.append(Change(what=what, before=was, after=now, worse=True))
        if not new["code"]:
            left, still = (_lines_left(each) for each in (before, after))
            what = f"{shell} shell, executed lines without a fault"
            worse = left is not None and (still is None or still > left)
            changes.append(Change(what=what, before=left, after=still, worse=worse))
        changes += [
            Change(what=f"{shell} shell, {what}", before=was, after=now)
            for (what, was), now in zip(_judged(before).items(), _judged(after).values(), strict=True)
            if _differ(was or 0, now or 0)
        ]
        changes += [
            _closure(f"{shell} shell, closure of {of}", one, other)
            for of, one, other in _paired(before["closures"], after["closures"], ("of",))
        ]
        changes += [
            _stage(f"{shell} shell, stage {name!r}", one, other)
            for name, one, other in _paired(before["stages"], after["stages"], ("name",))
            if one is not None and one["finished"]
        ]
    return changes


def _lines_left(shell: Document) -> int | None:
    """None: the shell has not looked inside."""
    if shell["lines_total"] is None:
        return None
    return int(shell["lines_total"] - (shell["lines_reached"] or 0) - shell["lines_covered"])


def _stage(what: str, before: Document, after: Document | None) -> Change:
    """Of a stage that was run to its end."""
    if after is None:
        return Change(what=what, before="finished", after=None, worse=True)
    left = "finished" if after["finished"] else stage_coverage(after)
    return Change(what=what, before="finished", after=left, worse=not after["finished"])


def _code(old: Document, new: Document) -> list[Change]:
    """The user's own code. What was left out counts: the number of its lines changes with every edit."""
    changes = []
    for file, before, after in _paired(old["code"], new["code"], ("file",)):
        if before is None:
            continue
        if after is None:
            fewer = sum(each["executed"] for each in new["code"]) < sum(each["executed"] for each in old["code"])
            lines = facts.plural(before["executed"], "executed line")
            changes.append(Change(what=file, before=lines, after=None, worse=fewer))
            continue
        was, now = _left_out(before), _left_out(after)
        changes += [
            Change(what=f"{file}: {what}", before=was[what], after=now[what], worse=was[what] < now[what])
            for what in was
        ]
    return changes


def _left_out(file: Document) -> dict[str, int]:
    executed = file["executed"]
    return {
        "executed lines never killed": executed - file["killed"] - file["covered"],
        "executed lines never stopped": executed - file["stopped"],
        "executed lines never paused": executed - file["paused"],
        "statements that never ran": len(file["never_run"]),
        "statements left out by a mark": len(file["excluded"]),
    }


def _judged(shell: Document) -> Document:
    """Whichever command has run them."""
    return {
        "schedules": shell["schedules_run"] + shell["schedules_kept"],
        "real kills": shell["kills"] + shell["kills_kept"],
        "lines with a fault": shell["lines_reached"],
    }


def _closure(what: str, before: Document | None, after: Document | None) -> Change:
    states = [closure and (f"{', '.join(closure_facts(closure)[:2])}") for closure in (before, after)]
    was, now = bool(before and before["complete"]), bool(after and after["complete"])
    return Change(what=what, before=states[0], after=states[1], worse=was and not now, better=now and not was)


def _time(before: float, after: float) -> list[Change]:
    if not _differ(before, after):
        return []
    return [Change(what="time", before=facts.seconds_text(before), after=facts.seconds_text(after))]


def _differ(before: float, after: float) -> bool:
    least, most = sorted((max(before, 0.001), max(after, 0.001)))
    return most >= REPORTED_RATIO * least


def _canary_changes(one: Document, other: Document) -> list[Change]:
    if one["canaries"] and not other["canaries"]:
        return [Change(what="canaries", before=facts.canary_sentence(one), after="none were tried", worse=True)]
    changes = []
    for name, before, after in _paired(one["canaries"], other["canaries"], ("name", "shell")):
        right = [value and facts.canary_is_right(value) for value in (before, after)]
        changes.append(
            Change(
                what=name,
                before=before and facts.canary_outcome(before),
                after=after and facts.canary_outcome(after),
                worse=right[1] is False and right[0] is not False,
                better=right[0] is False and right[1] is True,
            )
        )
    return [change for change in changes if change.before != change.after]


def _only_in(subject: Document, other: Document) -> list[FindingChange]:
    known = {_key(finding) for finding in other["findings"]}
    found = {_key(finding): finding for finding in reversed(subject["findings"]) if _key(finding) not in known}
    return [
        FindingChange(oracle=oracle, claimed=claimed, place=place, why=finding["why"], replay=finding["replay"])
        for (oracle, claimed, place), finding in reversed(found.items())
    ]


def _key(finding: Document) -> tuple[str, bool, str]:
    """Equal for the same flaw in two runs: the attempt and the occurrence of the point do not matter."""
    places = [f"{point}={kind}" for point, _, kind in faults_of(finding)] or finding["schedule"].split()[-1:]
    return finding["oracle"], finding["claimed"], places[-1] if places else ""


def _paired(
    one: Iterable[Document], other: Iterable[Document], keys: Sequence[str]
) -> list[tuple[str, Document | None, Document | None]]:
    """Pairs by name: in the order of the first certificate, then what only the second one has."""

    def named(values: Iterable[Document]) -> dict[str, Document]:
        return {" in ".join(str(value[key]) for key in keys if value[key]): value for value in values}

    before, after = named(one), named(other)
    return [(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]
