"""The badge: grade, version and date, and no colour that an old certificate has not earned."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from sinkproof.reports.ci import badge
from sinkproof.reports.document import Document

from ...support.sample_certificate import sample

RUN = "2026-01-31T12:00:00+00:00"


def certificate(verdict: str, grade: str) -> Document:
    return {**sample(), "verdict": verdict, "date": RUN, "subjects": [{**sample()["subjects"][0], "grade": grade}]}


def on_day(day: int) -> datetime:
    return datetime(2026, 2, day, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("verdict", "grade", "message", "color"),
    [
        ("upheld", "exactly-once", "exactly-once | 0.1.0 | 2026-01-31", badge.GREEN),
        ("upheld", "at-least-once", "at-least-once | 0.1.0 | 2026-01-31", badge.BLUE),
        ("violated", "broken", "violated: broken | 0.1.0 | 2026-01-31", badge.RED),
        ("unknown", "unknown", "unknown | 0.1.0 | 2026-01-31", badge.YELLOW),
    ],
)
def test_a_badge_says_grade_version_and_date(verdict: str, grade: str, message: str, color: str) -> None:
    found = json.loads(badge.endpoint(certificate(verdict, grade), now=on_day(1), old_days=7))
    assert (1, "sinkproof", message, color) == tuple(
        found[key] for key in ("schemaVersion", "label", "message", "color")
    )
    assert (verdict == "violated") is found["isError"]


def test_the_worst_grade_counts() -> None:
    document = {**certificate("upheld", "exactly-once")}
    document["subjects"] = [*document["subjects"], {**document["subjects"][0], "grade": "at-least-once"}]
    assert json.loads(badge.endpoint(document, now=on_day(1), old_days=7))["message"].startswith("at-least-once | ")


def test_an_old_or_undated_certificate_is_grey() -> None:
    document = certificate("upheld", "exactly-once")
    colours = [json.loads(badge.endpoint(document, now=on_day(day), old_days=7))["color"] for day in (7, 8)]
    assert [badge.GREEN, badge.GREY] == colours
    undated = json.loads(badge.endpoint({**document, "date": ""}, now=on_day(1), old_days=7))
    assert (badge.GREY, True) == (undated["color"], undated["message"].endswith("undated"))


def test_the_picture_is_svg_with_the_same_words() -> None:
    document = certificate("upheld", "exactly-once")
    document["environment"]["sinkproof"] = "<&1>"
    root = ElementTree.fromstring(badge.render(document, now=on_day(1), old_days=7))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert ["sinkproof", "exactly-once | <&1> | 2026-01-31"] == texts
    assert badge.GREEN in {element.get("fill") for element in root.iter()}
    assert "sinkproof: exactly-once | <&1> | 2026-01-31" == root.get("aria-label")
