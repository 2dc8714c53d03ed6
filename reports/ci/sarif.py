"""SARIF 2.1.0 for code scanners: one rule per claim, one result per violation.

A scanner recognises a violation in later runs by its fingerprint, which no edit above the struck line changes. UNKNOWN
is a notification of the run: it has no place in the code. Message texts follow SARIF's own escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from sinkproof.reports import report_facts as facts
from sinkproof.reports import story
from sinkproof.reports.ci.violations import Violation, faults_of, violations
from sinkproof.reports.document import FILE_NAME, Document, SourceLine, line_of

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT: Final = "%SRCROOT%"  # the scanner's own name for the root of the repository
FINGERPRINT: Final = "sinkproof/v1"
FINGERPRINT_READ: Final = "primaryLocationLineHash"  # GitHub reads this one only, and makes one of lines without it
SPECIAL: Final = re.compile(r"([\\\[\]])")  # of links in a message
LINE: Final = re.compile(r"line\((?P<file>.+):(?P<number>\d+)\)")
Reasons = Mapping[tuple[str, str], str]  # key of a waived violation -> why


def render(document: Mapping[str, Any], *, waived: Reasons | None = None) -> str:
    known = facts.filled(document)
    rules = _rules(known)
    run = {
        "tool": {
            "driver": {
                "name": "sinkproof",
                "version": str(known["environment"].get("sinkproof", "unknown")),
                "rules": [_rule(known, name) for name in rules],
            }
        },
        "automationDetails": {"id": "sinkproof/"},
        "originalUriBaseIds": {ROOT: {"description": _message("the root of the repository")}},
        "invocations": [_invocation(known)],
        "results": [_result(each, rules, waived or {}) for each in violations(document)],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rules(document: Document) -> list[str]:
    claims = [claim["claim"] for subject in document["subjects"] for claim in subject["claims"]]
    return list(dict.fromkeys([*document["glossary"].get("claims", {}), *claims]))


def _rule(document: Document, name: str) -> Document:
    sentence = facts.meaning(document, "claims", name) or name
    how = "Each result has the command that shows it again, and the steps of the sink up to the fault."
    return {
        "id": name,
        "shortDescription": _message(f"{name}: {sentence}"),
        "fullDescription": _message(f"The sink claims {name}: {sentence}. A fault that sinkproof injected broke this."),
        "help": _message(f"{how} `sinkproof explain` shows what sinks do right."),
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["exactly-once", "correctness"]},
    }


def _invocation(document: Document) -> Document:
    claims = [(subject, claim) for subject in document["subjects"] for claim in subject["claims"]]
    unknown = [
        f"{subject['name']}: {claim['claim']} is UNKNOWN: {claim['why']}"
        for subject, claim in claims
        if claim["verdict"] == "unknown"
    ]
    notes = [*unknown, *facts.doubts(document)]
    return {
        "executionSuccessful": document["complete"],
        **({"commandLine": facts.visible(document["command"])} if document["command"] else {}),
        "toolExecutionNotifications": [{"level": "warning", "message": _message(text)} for text in notes],
    }


def _result(violation: Violation, rules: list[str], waived: Reasons) -> Document:
    finding = violation.smallest
    lines = {(line.path, line.number): line for line in map(line_of, violation.findings) if line.path}
    others = [line for place, line in lines.items() if place != (line_of(finding).path, line_of(finding).number)]
    result = {
        "ruleId": violation.claim,
        "ruleIndex": rules.index(violation.claim),
        "level": "error",
        "message": _message(
            f"{violation.subject} does not keep {violation.claim} ({violation.where}): {finding['why']}. "
            f"{story.ending(finding)}. Show it again: {finding['replay']}"
        ),
        "locations": [_location(violation, line_of(finding))],
        "partialFingerprints": {
            FINGERPRINT: violation.fingerprint,
            FINGERPRINT_READ: f"{violation.fingerprint}:1",
        },
        "occurrenceCount": len(violation.findings),
        "codeFlows": [_flow(violation, finding)],
    }
    if others:
        result["relatedLocations"] = [
            {"id": number, **_location(violation, line)} for number, line in enumerate(others, 1)
        ]
    if violation.key in waived:
        why = facts.visible(waived[violation.key])
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    return result


def _flow(violation: Violation, finding: Document) -> Document:
    """Each fault of the schedule; before the last one the steps of its victim; in the end what a reader saw."""
    paths = {line_of(each).file: line_of(each).path for each in violation.findings if line_of(each).path}
    struck = line_of(finding)
    *earlier, last = faults_of(finding) or [("", 0, "")]
    steps = [(f"{kind} at {point}, its occurrence {times}", _line(point, paths)) for point, times, kind in earlier]
    steps += [(f"passes {point}", _line(point, paths)) for point in finding["steps"][:-1]]
    if last[0]:
        steps.append((f"{last[2]} at {last[0]}, its occurrence {last[1]}", struck))
    steps.append((f"in the end: {story.ending(finding)}", struck))
    locations = [
        {
            "location": {**_location(violation, line or struck), "message": _message(text)},
            "executionOrder": number,
            "importance": "essential" if " at " in text else "important",
        }
        for number, (text, line) in enumerate(steps, 1)
    ]
    return {"message": _message(finding["schedule"]), "threadFlows": [{"locations": locations}]}


def _line(point: str, paths: Mapping[str, str]) -> SourceLine | None:
    match = LINE.fullmatch(point)
    file = match["file"].replace("%20", " ") if match else ""
    return SourceLine(file=file, number=int(match["number"]), path=paths[file]) if match and file in paths else None


def _location(violation: Violation, line: SourceLine) -> Document:
    """The struck line; else the file of the contract, which every scanner can show."""
    contract = violation.subject.rpartition(":")[0]
    path = line.path or (contract if contract.endswith(".py") and not contract.startswith(("/", "..")) else FILE_NAME)
    physical: Document = {
        "artifactLocation": {"uri": quote(facts.visible(path)), "uriBaseId": ROOT},
        "region": {"startLine": max(line.number, 1) if line.path else 1},
    }
    if line.path and line.text:
        physical["region"]["snippet"] = {"text": facts.visible(line.text)}
    location: Document = {"physicalLocation": physical}
    if line.function:
        location["logicalLocations"] = [{"fullyQualifiedName": line.function, "kind": "function"}]
    return location


def _message(text: object) -> Document:
    escaped = SPECIAL.sub(r"\\\1", facts.visible(text))
    return {"text": escaped.replace("{", "{{").replace("}", "}}")}
