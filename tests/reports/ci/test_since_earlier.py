"""An earlier certificate beside this one: new, still there, gone or not looked for; no moved line matters."""

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
        absent.finding["oracle"]: absent.word for absent in beside.absent(subject)
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
        assert [("O2", "gone")] == [(each.finding["oracle"], each.label) for each in beside.absent(subject)]
        summary = beside.summary(facts.filled(sample())["subjects"])
        assert "Beside the earlier certificate: 1 new, 1 still there, 1 gone" == summary


def test_a_subject_that_was_not_certified_earlier_has_no_words() -> None:
    earlier = sample()
    del earlier["subjects"][1]
    assert {"O2": "", "O7": ""} == words(sample(), earlier)
    assert (
        Earlier(earlier)
        .summary(facts.filled(sample())["subjects"])
        .endswith("no finding of a subject that both have; 1 subject not in it")
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


def stage(*, finished: bool) -> dict[str, Any]:
    return {"name": "kill at each step", "run": 1, "planned": 2, "finished": finished, "skipped": ""}


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"verdict": "upheld"}, "gone"),
        ({"verdict": "violated"}, "gone"),
        ({"verdict": "unknown"}, "not looked for (the verdict is unknown)"),
        ({"shells": []}, "not looked for (no run in the process shell)"),
        ({"shell": {"schedules_run": 0}}, "not looked for (no run in the process shell)"),
        ({"shell": {"schedules_run": 0, "schedules_kept": 5}}, "gone"),
        ({"shell": {"shell": "simulated"}}, "not looked for (no run in the process shell)"),
        ({"shell": {"stages": [stage(finished=True)]}}, "gone"),
        ({"verdict": "upheld", "shell": {"stages": [stage(finished=False)]}}, "gone (not every stage ran)"),
        (
            {"verdict": "violated", "shell": {"stages": [stage(finished=False)]}},
            "not looked for (other findings ended the campaign before all its stages ran)",
        ),
    ],
)
@pytest.mark.parametrize("render", [terminal.render, markdown.render, page.render])
def test_only_what_was_looked_for_is_gone(render: Any, changes: dict[str, Any], label: str) -> None:
    now, given = sample(), {key: value for key, value in changes.items() if key != "shell"}
    (shell,) = now["subjects"][1]["shells"]
    now["subjects"][1].update({"findings": [], "shells": [{**shell, **changes.get("shell", {})}], **given})
    found = html.unescape(render(now, earlier=Earlier(sample()))).replace("\\", "")
    text = " ".join(found.replace("</span>", ":").split())
    assert f"{label}: O7 NO_RESIDUE" in text
    assert f"2 {label.partition(' (')[0]}" in text
    assert f"✓ {NAME_HOSTILE}" not in text  # a finding that is not found is no verdict


def test_a_finding_of_two_shells_is_not_gone_where_only_one_of_them_ran() -> None:
    earlier, now = sample(), sample()
    finding = earlier["subjects"][1]["findings"][1]
    earlier["subjects"][1]["findings"] = [{**finding, "shell": "simulated"}, {**finding, "shell": "process"}]
    now["subjects"][1]["findings"] = []
    (absent,) = Earlier(earlier).absent(facts.filled(now)["subjects"][1])
    assert "not looked for (no run in the simulated shell)" == absent.label


def test_subjects_that_only_the_earlier_certificate_has_are_counted_and_named() -> None:
    now = sample()
    missing = now["subjects"].pop(1)["name"]
    line = Earlier(sample()).summary(facts.filled(now)["subjects"])
    assert f"no finding of a subject that both have; 1 subject only in it: {missing}" in line
    earlier = sample()
    earlier["subjects"] += [{**earlier["subjects"][0], "name": f"other/{number}"} for number in range(4)]
    line = Earlier(earlier).summary(facts.filled(sample())["subjects"])
    assert line.endswith("2 still there; 4 subjects only in it: other/0, other/1, other/2, and 1 more")


def test_without_findings_and_with_equal_subjects_neither_has_any() -> None:
    document = sample()
    document["subjects"] = document["subjects"][:1]
    assert Earlier(document).summary(facts.filled(document)["subjects"]).endswith(": no finding in either")
