"""Waivers of known violations, in the user's pyproject.toml, and the exit status of a certificate.

A waiver never changes a verdict. The status is 0 in spite of violations only if a waiver that has not expired covers
each of them, and if nothing else is wrong.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, EXIT_USAGE, Verdict, merge
from sinkproof.reports.ci.sarif import Reasons
from sinkproof.reports.ci.violations import Violation, violations
from sinkproof.reports.report_facts import canary_is_right, filled, visible
from sinkproof.subject.claims import Claim, names
from sinkproof.subject.contract import ContractError

FILE: Final = "pyproject.toml"
TABLE: Final = "tool.sinkproof"
KEY: Final = "waivers"


class WaiverError(ContractError):
    """A waiver that cannot be read; the message says where, what, and the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """`cause`: as a report names it, `O2` or `R1`, for any place; or with one, `O2 in MySink.publish`. `expiry`: the
    last day on which it counts.
    """

    subject: str
    claim: str
    cause: str
    reason: str
    owner: str
    expiry: date

    def covers(self, violation: Violation) -> bool:
        names_it = violation.subject == self.subject
        if violation.subject.startswith("/"):  # pytest certifies files by their full paths
            names_it = violation.subject.endswith(f"/{self.subject}")
        return names_it and self.claim == violation.claim and self.cause in violation.causes

    @property
    def text(self) -> str:
        return f"{self.subject}, {self.claim}, {self.cause}"


@dataclass(frozen=True, kw_only=True)
class WaiverCheck:
    """A certificate beside the waivers, on one day."""

    document: Mapping[str, Any]
    waivers: Sequence[Waiver]
    today: date

    @cached_property
    def violations(self) -> list[Violation]:
        return violations(self.document) if self.waivers else []

    @cached_property
    def reasons(self) -> Reasons:
        """Why a violation is waived, by its key."""
        return {
            each.key: f"{waiver.reason} ({waiver.owner}, until {waiver.expiry})"
            for each in self.violations
            for waiver in self.waivers
            if waiver.covers(each) and self.today <= waiver.expiry
        }

    @property
    def verdict(self) -> Verdict:
        """The verdict without what is waived. It decides the exit status, and nothing else."""
        if not self.reasons:
            return Verdict(self.document["verdict"])
        known = filled(self.document)
        is_sure = known["complete"] and all(map(canary_is_right, known["canaries"]))
        left = [Verdict.UPHELD if is_sure else Verdict.UNKNOWN]
        for subject in known["subjects"]:
            if subject["verdict"] == Verdict.VIOLATED.value:
                waived = self.waived_claims(subject["name"])
                left += [Verdict(each["verdict"]) for each in subject["claims"] if each["claim"] not in waived]
            else:
                left.append(Verdict(subject["verdict"]))
        return merge(left)

    def waived_claims(self, subject: str) -> set[str]:
        """Those of which every violation is waived."""
        of_subject = [each for each in self.violations if each.subject == subject]
        standing = {each.claim for each in of_subject if each.key not in self.reasons}
        return {each.claim for each in of_subject} - standing

    @property
    def exit_status(self) -> int:
        """A violation stands in spite of any failure; otherwise a failure decides before the verdict."""
        causes = {failure["whose"] for failure in self.document.get("failures", ())}
        if self.verdict is not Verdict.VIOLATED and "ours" in causes:
            return EXIT_INTERNAL
        if self.verdict is not Verdict.VIOLATED and "input" in causes:
            return EXIT_USAGE
        return self.verdict.exit_code

    def lines(self) -> list[str]:
        """What to print of waivers: nothing where there are none."""
        waived = [each for each in self.violations if each.key in self.reasons]
        lines = []
        if waived:
            left = len(self.violations) - len(waived)
            lines.append(
                f"{str(self.document['verdict']).upper()}, {len(waived)} waived{f', {left} not' if left else ''}"
            )
        lines += [f"waived: {each.subject}, {each.claim}, {each.where}: {self.reasons[each.key]}" for each in waived]
        for waiver in self.waivers:
            if not any(map(waiver.covers, self.violations)):
                lines.append(f"a waiver met nothing: {waiver.text}. Remove it if the violation is mended")
            elif waiver.expiry < self.today:
                lines.append(f"a waiver expired on {waiver.expiry}: {waiver.text} ({waiver.owner}). It does not count")
        return [visible(line) for line in lines]


def waivers_of(folder: Path) -> list[Waiver]:
    """From the nearest pyproject.toml in this folder or above it. Raises WaiverError."""
    path = next((each / FILE for each in (folder, *folder.parents) if (each / FILE).is_file()), None)
    if path is None:
        return []
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("sinkproof", {})
    except (OSError, ValueError, AttributeError) as error:
        raise WaiverError(f"{path} cannot be read: {error}. Correct it: it may hold waivers") from error
    _refuse_unknown(table, [KEY], f"{path}, [{TABLE}]")
    listed = table.get(KEY, [])
    if not isinstance(listed, list):
        listed = [KEY]  # one table, or a value
    return [_waiver(given, f"{path}, [[{TABLE}.{KEY}]] number {at}") for at, given in enumerate(listed, 1)]


def _waiver(given: Mapping[str, Any], where: str) -> Waiver:
    keys = [each.name for each in fields(Waiver)]
    _refuse_unknown(given, keys, where)
    missing = [key for key in keys if not given.get(key) or (key != "expiry" and not isinstance(given[key], str))]
    if missing:
        raise WaiverError(f"{where}: {missing[0]} is missing or no text. A waiver has all of {', '.join(keys)}")
    if given["claim"] not in names(~Claim(0)):
        near = _nearest(given["claim"], names(~Claim(0)))
        raise WaiverError(f"{where}: there is no claim {given['claim']!r}{near}. Name one that a report calls VIOLATED")
    return Waiver(**{**given, "expiry": _date(given["expiry"], where)})


def _date(given: object, where: str) -> date:
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    try:
        return date.fromisoformat(str(given))
    except ValueError as error:
        raise WaiverError(f"{where}: expiry = {given} is no date. Write expiry = 2026-12-31") from error


def _refuse_unknown(given: object, keys: Sequence[str], where: str) -> None:
    if not isinstance(given, Mapping):
        raise WaiverError(f"{where}: this is no table. Write [[{TABLE}.{KEY}]], and below it {', '.join(keys)}")
    for key in given:
        if key not in keys:
            raise WaiverError(f"{where}: unknown key {key!r}{_nearest(key, keys)}. Known: {', '.join(keys)}")


def _nearest(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
