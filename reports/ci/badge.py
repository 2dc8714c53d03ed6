"""A badge: the measured grade, the version of sinkproof and the date of the run; grey where it is old or undated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sinkproof.reports import page
from sinkproof.reports import report_facts as facts
from sinkproof.reports.document import GRADES, Document

LABEL: Final = "sinkproof"
GREY, RED, YELLOW, GREEN, BLUE = "#5f6368", "#b3261e", "#8a6100", "#1a7f37", "#0b62a8"  # white text is legible on each
COLOURS: Final = {"violated": RED, "unknown": YELLOW}
CHARACTER: Final = 6.6  # points, at the size of the badge's text


def render(document: Mapping[str, Any], *, now: datetime, old_days: int) -> str:
    """SVG."""
    facts_shown = _endpoint(document, now=now, old_days=old_days)
    message = facts_shown["message"]
    widths = [round(len(text) * CHARACTER) + 12 for text in (LABEL, message)]
    return page.filled("badge.svg.j2", label=LABEL, message=message, color=facts_shown["color"], widths=widths) + "\n"


def endpoint(document: Mapping[str, Any], *, now: datetime, old_days: int) -> str:
    """JSON, as badge services read it from a URL."""
    return json.dumps(_endpoint(document, now=now, old_days=old_days), indent=1) + "\n"


def _endpoint(document: Mapping[str, Any], *, now: datetime, old_days: int) -> Document:
    known = facts.filled(document)
    verdict = known["verdict"]
    grades = [subject["grade"] for subject in known["subjects"]] or ["unknown"]
    worst = max(grades, key=GRADES.index)
    words = worst if verdict == "upheld" or worst == verdict else f"{verdict}: {worst}"
    date, is_old = known["date"][:10], True
    if date:
        is_old = (now - datetime.fromisoformat(known["date"])).days > old_days
    version = known["environment"].get("sinkproof", "of an unknown version")
    colour = COLOURS.get(verdict, GREEN if worst == GRADES[0] else BLUE)
    return {
        "schemaVersion": 1,
        "label": LABEL,
        "message": f"{words} | {version} | {date or 'undated'}",
        "color": GREY if is_old else colour,
        "isError": verdict == "violated",
    }
