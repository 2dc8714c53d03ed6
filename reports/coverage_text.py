"""Sentences on how far a campaign came: its stages, and the lines of a user's sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sinkproof.reports.document import Document
from sinkproof.reports.report_facts import count, plural

LINES_LISTED_MOST: Final = 12
NEVER_RAN: Final = {  # key of a file's coverage -> what its line numbers are
    "never_run": "never ran",
    "handlers_never_run": "handle or raise exceptions, and never ran",
    "excluded": "left out by a mark",
}


def code_lines(subject: Document) -> list[str]:
    """One sentence for each file of a user's sink: what was struck there, and what never ran."""
    sentences = []
    for file in subject["code"]:
        struck = ", ".join(f"{count(file[kind])} {kind}" for kind in ("killed", "stopped", "paused"))
        parts = [f"{file['file']}: {plural(file['executed'], 'line')} executed, {struck}"]
        parts += [f"{what}: {_line_numbers(file[key])}" for key, what in NEVER_RAN.items() if file[key]]
        sentences.append("; ".join(parts))
    return sentences


def _line_numbers(numbers: Sequence[int]) -> str:
    more = len(numbers) - LINES_LISTED_MOST
    listed = ", ".join(map(str, numbers[:LINES_LISTED_MOST]))
    return f"{listed} and {more} more" if more > 0 else listed


def stage_coverage(stage: Document) -> str:
    """How far a stage of a campaign came: `14`, `14 of 20, not finished`, or why it was skipped."""
    run, planned = stage["run"], stage["planned"]
    if stage["skipped"]:
        return f"skipped: {stage['skipped']}"
    if stage["finished"]:
        return count(run) if run else "nothing to run"
    if not planned:
        return "not reached"
    return f"{count(run)} of {count(planned)}, not finished" if run < planned else f"{count(run)}, not finished"
