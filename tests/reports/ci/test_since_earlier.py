"""An earlier certificate beside this one: new, still there, gone, by fingerprints that no moved line changes."""

from __future__ import annotations

import copy
import html
from typing import Any

import pytest

from sinkproof.reports import markdown, page, terminal
from sinkproof.reports import report_facts as facts
from sinkproof.reports.ci.since_earlier import Earlier

from ...support.sample_certificate import NAME_HOSTILE, sample


def edited(**changes: Any) -> dict[str, Any]:
    """The sample, with these changes of the finding O2 of its violated subject."""
    document = copy.deepcopy(sample())
    finding = next(each for each in document["subjects"][1]["findings"] if each["oracle"] == "O2")
    finding.update(changes)
    return document


def words(document: dict[str, Any], earlier: dict[str, Any]) -> dict[str, str]:
    subject = facts.filled(document)["subjects"][1]
    beside = Earlier(earlier)
    return {finding["oracle"]: beside.word(subject, finding) for finding in subject["findings"]} | {
        finding["oracle"]: "gone" for finding in beside.gone(subject)
    }


def test_a_finding_is_still_there_although_its_line_and_its_shell_are_others() -> None:
    line = sample()["subjects"][1]["findings"][1]["line"]
    moved = edited(shell="simulated", schedule="sink[1].commit.after#3=kill", line={**line, "number": 61, "text": "x"})
    assert {"O2": "still there", "O7": "still there"} == words(sample(), moved)


def test_another_cause_or_another_function_is_new_and_the_former_one_is_gone() -> None:
    line = sample()["subjects"][1]["findings"][1]["line"]
    for other in (edited(root_cause="R5"), edited(line={**line, "function": "EvilSink.open"})):
        beside = Earlier(other)
        subject = facts.filled(sample())["subjects"][1]
        assert ["new"] == [beside.word(subject, each) for each in subject["findings"] if each["oracle"] == "O2"]
        assert ["O2"] == [each["oracle"] for each in beside.gone(subject)]
        assert "Beside the earlier certificate: 1 new, 1 still there, 1 gone" == beside.summary([subject])


def test_a_subject_that_was_not_certified_earlier_has_no_words() -> None:
    earlier = sample()
    del earlier["subjects"][1]
    assert {"O2": "", "O7": ""} == words(sample(), earlier)
    assert (
        Earlier(earlier)
        .summary(facts.filled(sample())["subjects"])
        .endswith("no finding in either; 1 subject not in it")
    )


def test_findings_that_are_shown_as_one_say_how_many_are_new() -> None:
    subject = facts.filled(sample())["subjects"][1]
    first, second = subject["findings"]
    beside = Earlier(edited(root_cause="R5"))
    assert "new" == beside.words(subject, [first, first])
    assert "1 new, 1 still there" == beside.words(subject, [first, second])


@pytest.mark.parametrize("render", [terminal.render, markdown.render, page.render])
def test_reports_say_it_of_each_finding_and_name_what_is_gone(render: Any) -> None:
    plain = html.unescape(render(sample())).replace("\\", "")
    assert "still there" not in plain
    text = " ".join(html.unescape(render(sample(), earlier=Earlier(edited(root_cause="R5")))).replace("\\", "").split())
    assert "Beside the earlier certificate: 1 new, 1 still there, 1 gone" in text
    assert "O2 NO_DUPLICATES, R5 in EvilSink.publish: rows 0:0 to 0:9 were committed again" in text
    assert "still there" in text.partition("1 gone")[2] or "still there" in text.partition("Beside")[0]


def test_what_an_upheld_subject_no_longer_shows_is_gone_too() -> None:
    after = sample()
    after["subjects"][1] = {**after["subjects"][0], "name": NAME_HOSTILE}
    for render in (terminal.render, markdown.render, page.render):
        text = " ".join(html.unescape(render(after, earlier=Earlier(sample()))).replace("\\", "").split())
        assert "2 gone" in text
        assert "O7 NO_RESIDUE, O7 in begin.after: a staged file stays behind for ever" in text
