"""Annotations as workflow commands, and a summary of the step that GitHub accepts."""

from __future__ import annotations

import copy

import pytest

from sinkproof.reports.ci import github_annotations
from sinkproof.reports.ci.github_annotations import CUT, SHOWN_MOST, SUMMARY_BYTES_MOST, summary
from sinkproof.reports.ci.violations import violations
from sinkproof.reports.document import Document

from ...support.sample_certificate import NAME_HOSTILE, sample


def test_a_violation_is_an_error_at_the_struck_line_and_an_unknown_subject_a_warning() -> None:
    error, warning = github_annotations.render(sample()).splitlines()
    assert error.startswith("::error file=sinks/my_sink.py,line=42,title=VIOLATED%3A NO_DUPLICATES::")
    assert f"{NAME_HOSTILE} (R1 in EvilSink.publish): rows 0:0 to 0:9" in error
    assert "%0AShow it again: sinkproof replay 'sink[0].commit.after#1=kill'" in error
    assert (
        "::warning title=UNKNOWN%3A --command './my-sink --flag'::the point commit.before was never reached" == warning
    )


def test_text_cannot_leave_its_command() -> None:
    document = sample()
    finding = next(each for each in document["subjects"][1]["findings"] if each["claimed"])
    finding["why"] = "50%\r\n::error::forged\x1b"
    finding["line"]["path"] = "a,b:c%.py"
    error, _ = github_annotations.render(document).splitlines()
    assert "file=a%2Cb%3Ac%25.py," in error
    assert "50%25%0A::error::forged\\x1b%0AShow" in error


def many(document: Document, count: int) -> Document:
    findings = document["subjects"][1]["findings"]
    for number in range(count):
        findings.append(copy.deepcopy(findings[0] if findings[0]["claimed"] else findings[1]))
        findings[-1]["line"]["function"] = f"EvilSink.step_{number}"
    return document


def test_no_more_than_github_shows_and_how_many_are_left() -> None:
    lines = github_annotations.render(many(sample(), SHOWN_MOST)).splitlines()
    assert SHOWN_MOST == sum(line.startswith("::error ") for line in lines)
    assert "1 more violation: see the summary and the certificate" == lines[-1]


def with_unknown(document: Document, count: int) -> Document:
    first = next(subject for subject in document["subjects"] if subject["verdict"] == "unknown")
    others = [{**first, "name": f"sink {number}"} for number in range(1, count)]
    return {**document, "subjects": [*document["subjects"], *others]}


def test_of_unknown_subjects_too_no_more_than_github_shows() -> None:
    for count, last in ((10, "::warning title=UNKNOWN%3A sink 9::"), (12, "2 more unknown subjects: see the summary")):
        lines = github_annotations.render(with_unknown(sample(), count)).splitlines()
        assert SHOWN_MOST == sum(line.startswith("::warning ") for line in lines)
        assert lines[-1].startswith(last)
    lines = github_annotations.render(with_unknown(many(sample(), 11), 11)).splitlines()
    assert "2 more violations and 1 more unknown subject: see the summary and the certificate" == lines[-1]


def test_a_waived_violation_is_a_notice() -> None:
    (violation,) = violations(sample())
    notice, _ = github_annotations.render(sample(), waived={violation.key: "moved in March"}).splitlines()
    assert notice.startswith("::notice file=sinks/my_sink.py,line=42,")
    assert "::waived: moved in March%0A" in notice


@pytest.mark.slow
def test_a_summary_fits_into_what_is_left_of_its_limit() -> None:
    document = sample()
    whole = summary(document, waivers=["VIOLATED, 1 waived"])
    assert whole.startswith("- VIOLATED, 1 waived\n### ")
    document["subjects"][1]["findings"][0]["why"] = "größer " * SUMMARY_BYTES_MOST
    cut = summary(document)
    assert cut.endswith(CUT)
    assert len(cut.encode()) <= SUMMARY_BYTES_MOST
    assert "" == summary(document, room=10)
    assert all(len(summary(sample(), room=room).encode()) <= room for room in range(100, 1000, 9))
