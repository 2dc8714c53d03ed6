"""In which order findings are shown, which of them show the same bug, and the source around a struck line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sinkproof.reports.document import Document

STRATEGIES: Final = "strategies/"  # sinkproof's own files that stand between the engine and a user's target


def by_weight(findings: Iterable[Mapping[str, Any]], *, subject: str = "") -> list[Mapping[str, Any]]:
    """Broken claims first, then the smallest schedules. Of those, deaths tell most, and then faults in the file that
    the name of the subject begins with, or in other files of the user; otherwise in the order in which they were found.
    """
    subject_file = subject.rpartition(":")[0]

    def weight(finding: Mapping[str, Any]) -> tuple[bool, int, bool, bool, bool]:
        faults = sum("#" in word for word in finding["schedule"].split())
        file = (finding.get("line") or {"file": STRATEGIES})["file"]
        is_in_file = f"/{subject_file}".endswith(f"/{file}")
        is_ours = file.startswith(STRATEGIES)
        return not finding["claimed"], faults, "=kill" not in finding["schedule"], not is_in_file, is_ours

    return sorted(findings, key=weight)


def by_cause(findings: Iterable[Document]) -> list[list[Document]]:
    """Findings of one oracle and one likely cause are one bug, as far as a report can tell."""
    groups: dict[tuple[object, ...], list[Document]] = {}
    for finding in findings:
        groups.setdefault((finding["claimed"], finding["oracle"], finding["root_cause"]), []).append(finding)
    return list(groups.values())


def also_at(group: Sequence[Document]) -> str:
    """Where the other findings of a group struck: ranges of lines by file, and steps."""
    lines: dict[str, list[int]] = {}
    for finding in group:
        if finding["line"]:
            lines.setdefault(finding["line"]["file"], []).append(finding["line"]["number"])
    places = [
        f"{file}:{min(numbers)}" if min(numbers) == max(numbers) else f"{file}:{min(numbers)} to {max(numbers)}"
        for file, numbers in lines.items()
    ]
    steps = (finding["schedule"].split()[-1] for finding in group if not finding["line"])
    return ", ".join([*places, *dict.fromkeys(step.partition("#")[0] for step in steps)])


def lines_around(line: Document) -> list[str]:
    struck = f"{line['number']} "  # is marked
    shown = [f"{'→' if text.lstrip().startswith(struck) else ' '}{text}" for text in line.get("around", ())]
    return shown + [f"called from {text}" for text in line.get("called_from", ())]
