"""Findings of one bug are one group, and the one that tells most comes first."""

from __future__ import annotations

from typing import Any

from sinkproof.reports import page
from sinkproof.reports import report_facts as facts
from sinkproof.reports.finding_groups import also_at, by_cause, by_weight

from ..support.sample_certificate import sample
from .test_renderers import readable


def finding(schedule: str, *, line: int = 0, file: str = "my_sink.py", **keys: Any) -> dict[str, Any]:
    at = {"file": file, "number": line, "text": ""} if line else None
    return {"oracle": "O2", "claimed": True, "root_cause": "R1", "schedule": schedule, "line": at, **keys}


ZOMBIE = finding("sink[0].line(my_sink.py:7)#1=stop", line=7)
LIBRARY = finding("sink[0].line(other.py:9)#1=kill", line=9, file="other.py")
STRATEGY = finding("sink[0].line(strategies/write_ahead.py:9)#1=kill", line=9, file="strategies/write_ahead.py")
STEP = finding("sink[0].commit.after#1=kill")
DEATH = finding("sink[0].line(my_sink.py:8)#1=kill", line=8)
TWO = finding("sink[0].line(my_sink.py:3)#1=kill sink[0].line(my_sink.py:4)#1=kill", line=4)
UNCLAIMED = finding("sink[0].line(my_sink.py:2)#1=kill", line=2, claimed=False)
LOSS = finding("sink[0].line(my_sink.py:1)#1=kill", line=1, oracle="O1")


def test_a_death_at_a_line_of_the_users_file_tells_most() -> None:
    found = by_weight([UNCLAIMED, TWO, ZOMBIE, STRATEGY, LIBRARY, STEP, DEATH], subject="src/my_sink.py:Contract")
    assert [DEATH, LIBRARY, STRATEGY, STEP, ZOMBIE, TWO, UNCLAIMED] == found


def test_findings_of_one_oracle_and_cause_are_one_group() -> None:
    assert [[DEATH, STEP], [LOSS], [UNCLAIMED]] == by_cause([DEATH, LOSS, STEP, UNCLAIMED])


def test_the_other_places_of_a_group_are_ranges_of_lines_and_steps() -> None:
    assert "my_sink.py:4 to 8, other.py:9, sink[0].commit.after" == also_at([DEATH, STEP, LIBRARY, TWO, STEP])


def test_the_page_shows_other_findings_of_one_bug_in_one_row() -> None:
    document = sample()
    findings = document["subjects"][1]["findings"]
    struck = next(finding for finding in findings if finding.get("line"))
    alike = [
        {**struck, "schedule": f"sink[0].line(my_sink.py:{at})#1=kill", "line": {**struck["line"], "number": at}}
        for at in (31, 44, 38)
    ]
    findings += [*alike, {**alike[0], "oracle": "O6"}]
    html = page.render(document)
    rows = html.partition("Other findings on")[2].partition("</table>")[0].count('<tr><th scope="row"')
    others = facts.unpictured(facts.filled(document)["subjects"][1])
    assert rows == len(by_cause(others)) < len(others)
    assert "2 more findings of this kind, at my_sink.py:38 to 44" in readable("page", html)


def test_of_fifty_findings_two_timelines_are_shown_the_smallest_first() -> None:
    document = sample()
    findings = document["subjects"][1]["findings"]
    large = {**findings[1], "schedule": "sink[1].commit.after#2=kill sink[1].open.before#1=kill"}
    other = {**findings[1], "oracle": "O1", "schedule": "sink[0].open.after#1=kill"}
    findings[:] = [large] * 25 + [findings[1]] + [other] * 25
    html = page.render(document)
    assert 2 == html.count("<svg")
    assert ["O2", "O1"] == [finding["oracle"] for finding in facts.pictured(facts.filled(document)["subjects"][1])]
    text = readable("page", html)
    assert "49 other findings, by kind" in text
    assert "24 more findings of this kind, at" in text
