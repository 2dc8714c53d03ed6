"""JUnit XML: one case per claim and per protocol step of each shell; VIOLATED is a failure, UNKNOWN an error.

The file agrees with the certificate's verdict: it holds a failure exactly when something is violated, and an error
wherever a green tick would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from xml.etree import ElementTree

from sinkproof.reports import grid
from sinkproof.reports import report_facts as facts
from sinkproof.reports.coverage_text import beside_the_verdict
from sinkproof.reports.document import Document

KINDS: Final = {"violated": "failure", "unknown": "error"}


def render(document: Mapping[str, Any]) -> str:
    known = facts.filled(document)
    root = ElementTree.Element("testsuites", name="sinkproof")
    for subject in known["subjects"]:
        root.append(_subject_suite(subject))
    root.append(_canary_suite(known))
    root.append(_run_suite(known))
    for suite in root:
        _count(suite)
    _count(root)
    root.set("time", f"{known['seconds']:.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _subject_suite(subject: Document) -> ElementTree.Element:
    name = facts.visible(subject["name"])
    suite = ElementTree.Element("testsuite", name=f"sinkproof.{name}")
    for claim in subject["claims"]:
        case = _case(suite, classname=f"sinkproof.{name}", name=claim["claim"])
        evidence = [
            finding_text(f) for f in subject["findings"] if f["claimed"] and f["claim"] in (None, claim["claim"])
        ]
        _judge(case, claim["verdict"], why=claim["why"], evidence=evidence)
    if subject["not_compared"] and "INTACT_ROWS" not in subject["claimed"]:
        case = _case(suite, classname=f"sinkproof.{name}", name="INTACT_ROWS")
        ElementTree.SubElement(case, "skipped", message=subject["not_compared"])
    for shell in subject["shells"]:
        _step_cases(suite, subject, shell)
    if not _said(suite, subject["verdict"]):
        case = _case(suite, classname=f"sinkproof.{name}", name="verdict")
        _judge(
            case,
            subject["verdict"],
            why=subject["why"] or "no reason was given",
            evidence=map(finding_text, subject["findings"]),
        )
    suite.set("time", f"{facts.totals(subject).seconds:.3f}")
    if beside := beside_the_verdict(subject):
        ElementTree.SubElement(suite, "system-out").text = facts.visible("\n".join(beside))
    return suite


def _step_cases(suite: ElementTree.Element, subject: Document, shell: Document) -> None:
    """Reached steps pass unless their schedules broke a claim; known ones that were not reached are skipped."""
    classname = f"sinkproof.{facts.visible(subject['name'])}.{shell['shell']}"
    for point in dict.fromkeys([*shell["points_known"], *shell["points_reached"], *shell["points_covered"]]):
        case = _case(suite, classname=classname, name=point)
        cell = grid.point_outcome(shell, point)
        if point not in (*shell["points_reached"], *shell["points_covered"]):
            ElementTree.SubElement(case, "skipped", message="this step was not reached")
        elif cell.outcome == "violated":
            findings = [f for f in subject["findings"] if f["shell"] == shell["shell"] and _injects(f, point)]
            _judge(case, "violated", why=f"a fault at {point} breaks a claim", evidence=map(finding_text, findings))
        elif cell.outcome == "unfired":
            _judge(case, "unknown", why=f"no fault was ever injected at {point}")


def _canary_suite(document: Document) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name="sinkproof.canaries")
    for canary in document["canaries"]:
        case = _case(suite, classname="sinkproof.canaries", name=facts.canary_name(canary))
        case.set("time", f"{canary['seconds']:.3f}")
        if not facts.canary_is_right(canary):
            escaped = f"escaped; its root cause is {canary['root_cause']}"
            what = "a correct control was convicted" if canary["control"] else escaped
            _judge(case, "unknown", why=what, evidence=[canary["why"]])
    return suite


def _run_suite(document: Document) -> ElementTree.Element:
    """The run as a whole: whether it finished, and whether its verdict is UNKNOWN."""
    suite = ElementTree.Element("testsuite", name="sinkproof.run")
    case = _case(suite, classname="sinkproof.run", name="certificate")
    doubts = facts.doubts(document)
    if not document["complete"] or document["verdict"] == "unknown":
        _judge(case, "unknown", why="; ".join(doubts) or facts.summary(document))
    return suite


def _injects(finding: Document, point: str) -> bool:
    """Whether this finding's schedule injects a fault at this point; faults of the coordinator carry no actor."""
    return any(f".{word}".find(f".{point}#") >= 0 for word in finding["schedule"].split())


def finding_text(finding: Document) -> str:
    """The evidence of one finding, as plain lines."""
    lines = [
        f"{finding['oracle']}: {finding['why']}",
        f"{facts.rows_called(finding, 'lost') + ':':7} {facts.rows_text(finding, 'lost')}",
        f"extra:  {facts.rows_text(finding, 'extra')}",
    ]
    if line := finding["line"]:
        lines.append(f"line:   {facts.line_text(line)}  {line['text'].strip()}")
    lines.append(f"replay: {finding['replay']}")
    return "\n".join(lines)


def _case(suite: ElementTree.Element, *, classname: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=classname, name=facts.visible(name), time="0.000")


def _judge(case: ElementTree.Element, verdict: str, *, why: str, evidence: Iterable[str] = ()) -> None:
    if verdict in KINDS:
        element = ElementTree.SubElement(case, KINDS[verdict], message=facts.visible(why), type=verdict)
        element.text = facts.visible("\n\n".join([why, *filter(None, evidence)]))


def _said(suite: ElementTree.Element, verdict: str) -> bool:
    return verdict == "upheld" or suite.find(f"testcase/{KINDS[verdict]}") is not None


def _count(element: ElementTree.Element) -> None:
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(1 for _ in element.iter(tag))))
