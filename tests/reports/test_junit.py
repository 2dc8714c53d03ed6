"""JUnit XML: a failure where something is violated, an error where a verdict is missing."""

from __future__ import annotations

from xml.etree import ElementTree

from sinkproof.reports import document as certificate
from sinkproof.reports import junit

from ..support import sample_certificate
from ..support.sample_certificate import NAME_HOSTILE, REPLAY, sample


def test_junit_has_a_failure_per_violation_and_an_error_per_unknown() -> None:
    root = ElementTree.fromstring(junit.render(sample()))
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    failed = [case.get("name") for case in cases.values() if case.find("failure") is not None]
    assert ["NO_DUPLICATES", "commit.after"] == failed
    failure = cases[f"sinkproof.{NAME_HOSTILE}.process", "commit.after"].find("failure")
    assert failure is not None
    assert REPLAY in (failure.text or "")
    erred = [case.get("name") for case in cases.values() if case.find("error") is not None]
    assert ["NO_LOSS"] == erred
    assert ("2", "1") == (root.get("failures"), root.get("errors"))
    assert str(len(cases)) == root.get("tests")


def test_junit_skips_a_step_that_was_not_reached_and_has_an_error_where_no_fault_was_injected() -> None:
    document = sample()
    for outcome in document["subjects"][1]["shells"][0]["outcomes"]:
        outcome["outcome"] = "unfired" if outcome["point"] == "abort.after" else outcome["outcome"]
    cases = {
        (case.get("classname"), case.get("name")): [child.tag for child in case]
        for case in ElementTree.fromstring(junit.render(document)).iter("testcase")
    }
    assert ["error"] == cases[f"sinkproof.{NAME_HOSTILE}.process", "abort.after"]
    assert ["skipped"] == cases["sinkproof.--command './my-sink --flag'.process", "commit.before"]


def test_junit_of_a_run_without_a_verdict_is_never_green() -> None:
    document = {
        **sample(),
        "verdict": "unknown",
        "complete": False,
        "subjects": [certificate.plain(sample_certificate.upheld())],
    }
    root = ElementTree.fromstring(junit.render(document))
    assert "1" == root.get("errors")
