"""The violations in a certificate, by cause: what a waiver names, and what a code scanner knows them by in later runs.

Findings of one subject, claim and root cause that struck in one function are one violation. No line number is part of
it: it would change with every edit above that line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.document import Document, line_of

CODE: Final = re.compile(r"R\d+")  # of a root cause
FAULT: Final = re.compile(r"(?:[A-Za-z_][\w-]*\[\d+\]\.)?(?P<point>.+)#(?P<times>\d+)=(?P<kind>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """`cause`: the code of the root cause, or the oracle where the certificate names none. `place`: the function that
    was struck, or the step where no line of the user's code was. `findings`: the smallest schedule first.
    """

    subject: str
    claim: str
    cause: str
    place: str
    findings: Sequence[Document]

    @property
    def smallest(self) -> Document:
        return self.findings[0]

    @property
    def key(self) -> tuple[str, str]:
        """Equal for the same violation in another run."""
        return self.subject, self.fingerprint

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.smallest)

    @property
    def where(self) -> str:
        return f"{self.cause} in {self.place}"

    @property
    def causes(self) -> set[str]:
        """What a waiver may call it: the root cause or the oracle of all its findings, with the place or without."""
        oracles = {str(finding["oracle"]) for finding in self.findings}
        words = {self.cause, *(oracles if len(oracles) == 1 else ())}
        return words | {f"{word} in {self.place}" for word in words}


def violations(document: Mapping[str, Any]) -> list[Violation]:
    """In the order of the certificate. What breaks no claim is none, nor is a claim that was not judged."""
    groups: dict[tuple[str, str, str, str, str], list[Document]] = {}
    for subject in facts.filled(document)["subjects"]:
        broken = {claim["claim"] for claim in subject["claims"] if claim["verdict"] == "violated"}
        for finding in subject["findings"]:
            if not finding["claimed"] or finding["claim"] not in broken:
                continue
            file = line_of(finding).path or line_of(finding).file
            group = (subject["name"], finding["claim"], cause_of(finding), file, place_of(finding))
            groups.setdefault(group, []).append(finding)
    return [
        Violation(subject=subject, claim=claim, cause=cause, place=place, findings=found)
        for (subject, claim, cause, _, place), found in groups.items()
    ]


def fingerprint(finding: Document) -> str:
    """Of claim, root cause and struck function."""
    file = line_of(finding).path or line_of(finding).file
    text = "\0".join((finding["claim"] or "", cause_of(finding), file, place_of(finding)))
    return sha256(text.encode()).hexdigest()[:32]


def cause_of(finding: Document) -> str:
    code = CODE.match(finding["root_cause"] or "")
    return code[0] if code else str(finding["oracle"])


def place_of(finding: Document) -> str:
    if line_of(finding).function:
        return line_of(finding).function
    point = faults_of(finding)[-1][0] if faults_of(finding) else "a run without faults"
    return "its module" if point.startswith("line(") else point  # the line's number may change


def faults_of(finding: Document) -> list[tuple[str, int, str]]:
    """(point, occurrence, kind) of each fault of the schedule, in order."""
    found = (FAULT.fullmatch(word) for word in str(finding["schedule"]).split())
    return [(match["point"], int(match["times"]), match["kind"]) for match in found if match]
