"""An earlier certificate beside this one: which findings are new, still there, gone or not looked for.

A finding is known again by its fingerprint. It is gone only where its shells ran and came to a judgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.ci.violations import cause_of, fingerprint, place_of
from sinkproof.reports.document import Document

NEW: Final = "new"
STILL: Final = "still there"
GONE: Final = "gone"
NOT_SOUGHT: Final = "not looked for"
WORDS: Final = (NEW, STILL, GONE, NOT_SOUGHT)
NAMED_MOST: Final = 3  # of the subjects that only the earlier certificate has


@dataclass(frozen=True, slots=True)
class Absent:
    """A finding of the earlier certificate alone. `why`: it was not looked for, or not everywhere."""

    word: str
    why: str
    finding: Document

    @property
    def label(self) -> str:
        return f"{self.word} ({self.why})" if self.why else self.word

    @property
    def text(self) -> str:
        """What it was."""
        claim = f" {self.finding['claim']}" if self.finding["claim"] else ""
        where = f"{cause_of(self.finding)} in {place_of(self.finding)}"
        return f"{self.finding['oracle']}{claim}, {where}: {self.finding['why']}"


class Earlier:
    """The earlier certificate. A subject that it does not have has no words."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        known = facts.filled(document)
        self.date = str(known["date"])
        self.findings: dict[str, dict[str, list[Document]]] = {}  # by subject and fingerprint, the smallest first
        for subject in known["subjects"]:
            found = self.findings.setdefault(subject["name"], {})
            for finding in subject["findings"]:
                found.setdefault(fingerprint(finding), []).append(finding)

    def word(self, subject: Document, finding: Document) -> str:
        if subject["name"] not in self.findings:
            return ""
        return STILL if fingerprint(finding) in self.findings[subject["name"]] else NEW

    def words(self, subject: Document, findings: Iterable[Document]) -> str:
        """Of findings that are shown as one."""
        found = Counter(filter(None, (self.word(subject, finding) for finding in findings)))
        return ", ".join(found) if len(found) < 2 else ", ".join(f"{count} {word}" for word, count in found.items())

    def absent(self, subject: Document) -> list[Absent]:
        """The smallest finding of each kind that this certificate does not have."""
        still = {fingerprint(finding) for finding in subject["findings"]}
        known = self.findings.get(subject["name"], {})
        return [
            Absent(*_absence(subject, sorted({each["shell"] for each in found})), found[0])
            for key, found in known.items()
            if key not in still
        ]

    def summary(self, subjects: Sequence[Document]) -> str:
        """One line; each kind of finding counts once, however many schedules show it."""
        counts: Counter[str] = Counter()
        for subject in subjects:
            kinds = {fingerprint(finding): self.word(subject, finding) for finding in subject["findings"]}
            counts.update([*kinds.values(), *(each.word for each in self.absent(subject))])
        names = [subject["name"] for subject in subjects]
        missing, left = [name for name in names if name not in self.findings], self.findings.keys() - {*names}
        none = "no finding of a subject that both have" if missing or left else "no finding in either"
        found = [f"{facts.count(counts[word])} {word}" for word in WORDS if counts[word]]
        parts = [", ".join(found) or none]
        parts += [f"{facts.plural(len(missing), 'subject')} not in it"] if missing else []
        parts += [_only_in_it([name for name in self.findings if name in left])] if left else []
        return f"Beside the earlier certificate{f' of {self.date}' if self.date else ''}: {'; '.join(parts)}"


def _absence(subject: Document, shells: Sequence[str]) -> tuple[str, str]:
    """The word for a finding of these shells that is not found now, and why it is no better one."""
    ran = {shell["shell"]: shell for shell in subject["shells"] if shell["schedules_run"] + shell["schedules_kept"]}
    if missing := [shell for shell in shells if shell not in ran]:
        return NOT_SOUGHT, f"no run in the {' and '.join(missing)} shell"
    if subject["verdict"] == "unknown":
        return NOT_SOUGHT, "the verdict is unknown"
    if all(facts.is_done(stage) for shell in shells for stage in ran[shell]["stages"]):
        return GONE, ""
    if subject["verdict"] == "violated":  # such a campaign ends at what it has found
        return NOT_SOUGHT, "other findings ended the campaign before all its stages ran"
    return GONE, "not every stage ran"


def _only_in_it(names: Sequence[str]) -> str:
    more = [f"and {len(names) - NAMED_MOST} more"] if len(names) > NAMED_MOST else []
    return f"{facts.plural(len(names), 'subject')} only in it: {', '.join([*names[:NAMED_MOST], *more])}"
