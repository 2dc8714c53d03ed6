"""An earlier certificate beside this one: which findings are new, still there or gone, by their fingerprints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.ci.violations import cause_of, fingerprint, place_of
from sinkproof.reports.document import Document

NEW: Final = "new"
STILL: Final = "still there"
GONE: Final = "gone"
WORDS: Final = (NEW, STILL, GONE)


class Earlier:
    """The earlier certificate. A subject that it does not have has no words."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        known = facts.filled(document)
        self.date = str(known["date"])
        self.findings: dict[str, dict[str, Document]] = {
            subject["name"]: {fingerprint(finding): finding for finding in reversed(subject["findings"])}
            for subject in known["subjects"]
        }

    def word(self, subject: Document, finding: Document) -> str:
        if subject["name"] not in self.findings:
            return ""
        return STILL if fingerprint(finding) in self.findings[subject["name"]] else NEW

    def words(self, subject: Document, findings: Iterable[Document]) -> str:
        """Of findings that are shown as one."""
        found = Counter(filter(None, (self.word(subject, finding) for finding in findings)))
        return ", ".join(found) if len(found) < 2 else ", ".join(f"{count} {word}" for word, count in found.items())

    def gone(self, subject: Document) -> list[Document]:
        """The smallest finding of each that this certificate does not have any more."""
        still = {fingerprint(finding) for finding in subject["findings"]}
        known = self.findings.get(subject["name"], {})
        return [finding for key, finding in reversed(known.items()) if key not in still]

    def summary(self, subjects: Sequence[Document]) -> str:
        """One line; each kind of finding counts once, however many schedules show it."""
        counts: Counter[str] = Counter()
        for subject in subjects:
            kinds = {fingerprint(finding): self.word(subject, finding) for finding in subject["findings"]}
            counts.update(kinds.values())
            counts[GONE] += len(self.gone(subject))
        found = [f"{facts.count(counts[word])} {word}" for word in WORDS if counts[word]]
        of = f" of {self.date}" if self.date else ""
        missing = sum(subject["name"] not in self.findings for subject in subjects)
        lacks = f"; {facts.plural(missing, 'subject')} not in it" if missing else ""
        return f"Beside the earlier certificate{of}: {', '.join(found) or 'no finding in either'}{lacks}"


def gone_text(finding: Document) -> str:
    """What it was."""
    claim = f" {finding['claim']}" if finding["claim"] else ""
    return f"{finding['oracle']}{claim}, {cause_of(finding)} in {place_of(finding)}: {finding['why']}"
