"""A short summary in Markdown, for a pull request comment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports import story
from sinkproof.reports.ci.since_earlier import Earlier
from sinkproof.reports.coverage_text import bounds_lines, caveat_lines, closure_lines, code_lines, points_text
from sinkproof.reports.document import Document

FINDINGS_SHOWN: Final = 3  # per subject: a comment that must be scrolled is not read
SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#~&@])")


def render(document: Mapping[str, Any], *, earlier: Earlier | None = None) -> str:
    """`earlier`: a certificate beside this one."""
    known = facts.filled(document)
    lines = [
        f"### {facts.verdict_text(known['verdict'])}: sinkproof certificate",
        "",
        f"{facts.summary(known)}.",
        "",
    ]
    if known["subjects"]:
        lines += [
            "| subject | claimed | grade | verdict | kills | steps |",
            "|---|---|---|---|---:|---:|",
            *map(_row, known["subjects"]),
            "",
        ]
    if earlier is not None:
        lines += [f"{escaped(earlier.summary(known['subjects']))}.", ""]
    for subject in known["subjects"]:
        lines += _findings(subject, earlier)
    lines.append(f"Canaries: {facts.canary_sentence(known)}.")
    lines += [f"- {escaped(line)}" for line in closure_lines(known)]
    lines += [f"- {escaped(line)}" for line in bounds_lines(known["subjects"])]
    lines += [
        f"- {escaped(subject['name'])}: {escaped(line)}"
        for subject in known["subjects"]
        for line in (*code_lines(subject), *caveat_lines(subject))
    ]
    lines += [f"- {escaped(doubt)}" for doubt in facts.doubts(known)]
    return "\n".join(lines).rstrip() + "\n"


def _row(subject: Document) -> str:
    numbers = facts.totals(subject)
    cells = [
        escaped(subject["name"]),
        escaped(", ".join(subject["claimed"]) or "nothing"),
        escaped(facts.grade_text(subject)),
        facts.verdict_text(subject["verdict"]),
        facts.beside(numbers.kills, numbers.kills_kept),
        points_text(numbers),
    ]
    return f"| {' | '.join(cells)} |"


def _findings(subject: Document, earlier: Earlier | None) -> list[str]:
    absent = [f"- {each.label}: {escaped(each.text)}" for each in earlier.absent(subject)] if earlier else []
    if subject["verdict"] == "upheld":
        return [f"**{escaped(subject['name'])}**:", "", *absent, ""] if absent else []
    lines = [f"**{escaped(subject['name'])}**: {escaped(subject['why'])}", ""]
    for finding in subject["findings"][:FINDINGS_SHOWN]:
        word = earlier.word(subject, finding) if earlier else ""
        kind = f"{facts.claimed_text(finding['claimed'])}{f', {word}' if word else ''}"
        lines.append(f"- {finding['oracle']} ({kind}): {escaped(finding['why'])}")
        lines += [f"  - {kind}: {escaped(rows)}" for kind, rows in facts.rows_named(finding)]
        lines += [f"  - {escaped(line)}" for line in story.at_target(finding)]
        lines += ["", *_fenced(finding["replay"]), ""]
    more = len(subject["findings"]) - FINDINGS_SHOWN
    lines += [f"and {facts.plural(more, 'more finding')}", ""] if more > 0 else []
    return [*lines, *absent, ""] if absent else lines


def _fenced(text: str) -> list[str]:
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return [f"  {fence}", *(f"  {line}" for line in facts.visible(text).splitlines()), f"  {fence}"]


def escaped(text: object) -> str:
    """Plain text: no markup, no @mention, no cell border, no line break."""
    return SPECIAL.sub(r"\\\1", " ".join(facts.visible(text).split())).replace("\\@", "@\u200b")
