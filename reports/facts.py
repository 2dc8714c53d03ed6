"""What every renderer derives from the document, derived once: defaults, totals, the grid, sentences.

Nothing here knows a format. A fact that two reports show must read the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sinkproof.reports.document import Document

# A symbol and a word for everything that is coloured: no report says anything by colour alone.
SYMBOLS: Final = {
    "upheld": "✓",
    "violated": "✗",
    "unknown": "?",
    "finding": "△",
    "unfired": "○",
    "none": "·",
}
MEANINGS: Final = {
    "upheld": "upheld",
    "violated": "breaks a claim",
    "finding": "a flaw that no claim covers",
    "unfired": "never struck",
    "none": "not tried",
}
SEVERITY: Final = ("violated", "finding", "upheld", "unfired", "none")

LINE_POINT: Final = re.compile(r"line\((?P<file>[^()]+):(?P<number>\d+)\)")
CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

_DEFAULTS: Final[dict[str, dict[str, object]]] = {
    "document": {"complete": True, "notes": []},
    "canary": {"shell": None, "control": False, "why": ""},
    "subject": {"claimed": [], "why": ""},
    "shell": {"points_known": [], "kills_by_point": {}, "outcomes": [], "rows_committed": 0, "notes": []},
    "finding": {
        "lost_total": None,
        "extra_total": None,
        "claim": None,
        "root_cause": None,
        "timeline": [],
        "line": None,
        "traceback": None,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A subject's numbers over all its shells. Lines are None where no shell explored the interior."""

    kills: int
    schedules_run: int
    schedules_in_bound: int
    points_reached: int
    points_total: int
    lines_reached: int | None
    lines_total: int | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    outcome: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A protocol step, or all lines of one file together; one cell per column of the grid."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Steps by faults, the faults grouped by shell. `lines`: each source line that was not upheld, one by one."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[GridRow, ...]
    lines: tuple[tuple[str, str, Cell], ...]

    def groups(self) -> list[tuple[str, int]]:
        """Each shell and how many columns it has."""
        shells = [shell for shell, _ in self.columns]
        return [(shell, shells.count(shell)) for shell in dict.fromkeys(shells)]

    def starts(self) -> set[int]:
        """The columns at which another shell begins."""
        widths = [width for _, width in self.groups()]
        return {sum(widths[:index]) for index in range(len(widths))}


def filled(document: Mapping[str, Any]) -> Document:
    """The document with every optional key that is missing set to its default, so that renderers need not ask."""
    return {
        **_DEFAULTS["document"],
        **document,
        "canaries": [{**_DEFAULTS["canary"], **canary} for canary in document["canaries"]],
        "subjects": [_filled_subject(subject) for subject in document["subjects"]],
    }


def _filled_subject(subject: Mapping[str, Any]) -> Document:
    return {
        **_DEFAULTS["subject"],
        **subject,
        "shells": [{**_DEFAULTS["shell"], **shell} for shell in subject["shells"]],
        "findings": [{**_DEFAULTS["finding"], **finding} for finding in by_weight(subject["findings"])],
    }


def by_weight(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Broken claims first; otherwise in the order in which they were found."""
    return sorted(findings, key=lambda finding: not finding["claimed"])


def totals(subject: Document) -> Totals:
    shells = subject["shells"]
    reached = {point for shell in shells for point in shell["points_reached"]}
    known = {point for shell in shells for point in shell["points_known"]} | reached
    explored = [shell for shell in shells if shell["lines_total"] is not None]
    return Totals(
        kills=sum(shell["kills"] for shell in shells),
        schedules_run=sum(shell["schedules_run"] for shell in shells),
        schedules_in_bound=sum(shell["schedules_in_bound"] for shell in shells),
        points_reached=len(reached),
        points_total=max([len(known), *(shell["points_total"] for shell in shells)]),
        lines_reached=max((shell["lines_reached"] or 0 for shell in explored), default=None),
        lines_total=max((shell["lines_total"] for shell in explored), default=None),
        seconds=sum(shell["seconds"] for shell in shells),
    )


def grid(subject: Document) -> Grid:
    """Every named step that is known or was struck, in the protocol's order, then the lines, file by file."""
    cells: dict[tuple[str, str, str], Cell] = {}
    for shell in subject["shells"]:
        for outcome in shell["outcomes"]:
            key = (outcome["point"], shell["shell"], outcome["fault"])
            cells[key] = worst([Cell(outcome=outcome["outcome"], runs=outcome["runs"]), *_listed(cells.get(key))])
    columns = tuple(dict.fromkeys((shell, fault) for _, shell, fault in cells))
    columns = tuple(sorted(columns, key=lambda column: [shell for shell, _ in columns].index(column[0])))
    points = list(dict.fromkeys(point for point, _, _ in cells))
    named = [point for point in points if not LINE_POINT.fullmatch(point)]
    known = [point for shell in subject["shells"] for point in shell["points_known"]]
    rows = [_grid_row(point, [point], columns=columns, cells=cells) for point in dict.fromkeys([*known, *named])]
    rows += [
        _grid_row(_lines_label(file, group), group, columns=columns, cells=cells) for file, group in _by_file(points)
    ]
    doubtful = tuple(
        (point, f"{shell}: {fault}", cell)
        for (point, shell, fault), cell in cells.items()
        if LINE_POINT.fullmatch(point) and cell.outcome != "upheld"
    )
    return Grid(columns=columns if rows else (), rows=tuple(rows) if columns else (), lines=doubtful)


def worst(cells: Sequence[Cell]) -> Cell:
    """Several cells as one: the gravest outcome, all runs."""
    outcome = min((cell.outcome for cell in cells), key=SEVERITY.index, default="none")
    return Cell(outcome=outcome, runs=sum(cell.runs for cell in cells))


def _listed(cell: Cell | None) -> list[Cell]:
    return [] if cell is None else [cell]


def _grid_row(
    label: str,
    points: Sequence[str],
    *,
    columns: Sequence[tuple[str, str]],
    cells: Mapping[tuple[str, str, str], Cell],
) -> GridRow:
    return GridRow(
        label=label,
        cells=tuple(
            worst([cells[point, *column] for point in points if (point, *column) in cells]) for column in columns
        ),
    )


def _by_file(points: Iterable[str]) -> list[tuple[str, list[str]]]:
    files: dict[str, list[str]] = {}
    for point in points:
        if match := LINE_POINT.fullmatch(point):
            files.setdefault(match["file"], []).append(point)
    return list(files.items())


def _lines_label(file: str, points: Sequence[str]) -> str:
    return f"{plural(len(points), 'line')} of {file}"


def point_outcome(shell: Document, point: str) -> Cell:
    """What came of a point in this shell, over all faults."""
    return worst([Cell(outcome=o["outcome"], runs=o["runs"]) for o in shell["outcomes"] if o["point"] == point])


def doubts(document: Document) -> list[str]:
    """Why nobody may rely on this run as a whole, whatever it says of its subjects."""
    reasons = [] if document["complete"] else ["the run did not come to its end"]
    for canary in document["canaries"]:
        if canary["convicted"] == canary["control"]:
            fate = "a correct control was convicted" if canary["control"] else "a canary escaped"
            reasons.append(f"{fate}: {canary['name']}{_where(canary)}")
    if not document["subjects"]:
        reasons.append("no subject was certified")
    return [*reasons, *document["notes"]]


def canary_sentence(document: Document) -> str:
    canaries = [canary for canary in document["canaries"] if not canary["control"]]
    controls = [canary for canary in document["canaries"] if canary["control"]]
    if not document["canaries"]:
        return "no canaries were run: nothing shows that this certifier sees"
    convicted = sum(canary["convicted"] for canary in canaries)
    acquitted = sum(not canary["convicted"] for canary in controls)
    seconds = sum(canary["seconds"] for canary in document["canaries"])
    text = f"{convicted} of {len(canaries)} convicted of their own sin"
    if controls:
        text += f", {acquitted} of {len(controls)} controls acquitted"
    return f"{text}, in {seconds_text(seconds)}"


def summary(document: Document) -> str:
    """One sentence: how many subjects, with what verdicts, after how many crashes. Never "proven"."""
    verdicts = [subject["verdict"] for subject in document["subjects"]]
    parts = [f"{verdicts.count(word)} {word}" for word in ("violated", "unknown", "upheld") if word in verdicts]
    all_totals = [totals(subject) for subject in document["subjects"]]
    kills = sum(item.kills for item in all_totals)
    runs = sum(item.schedules_run for item in all_totals)
    return (
        f"{plural(len(verdicts), 'subject')}{': ' if parts else ''}{', '.join(parts)}, after {plural(kills, 'crash')}"
        f" in {plural(runs, 'schedule')}, {seconds_text(document['seconds'])}"
    )


def bound(run: int, in_bound: int) -> str:
    return count(run) if run == in_bound else f"{count(run)} of {count(in_bound)}"


def grade_text(subject: Document) -> str:
    """The measured grade, then what was expected where it differs; null expects nothing."""
    grade, expected = subject["grade"], subject["expected_grade"]
    if expected is None:
        return str(grade)
    return f"{grade} (expected)" if grade == expected else f"{grade} (expected {expected})"


def rows_text(finding: Document, kind: str, *, limit: int = 8) -> str:
    """`kind`: lost or extra. Every row up to the limit, then how many there are in all."""
    rows, total = finding[kind], rows_total(finding, kind)
    if not total:
        return "none"
    shown = ", ".join(row_text(row) for row in rows[:limit])
    rest = total - min(limit, len(rows))
    return f"{shown} … {count(rest)} more, {count(total)} in all" if rest else shown


def rows_total(finding: Document, kind: str) -> int:
    return max(finding[f"{kind}_total"] or 0, len(finding[kind]))


def row_text(row: Sequence[object]) -> str:
    return ":".join(str(part) for part in row)


def line_text(line: Document) -> str:
    return f"{line['file']}:{line['number']}"


def _where(canary: Document) -> str:
    return f" ({canary['shell']})" if canary["shell"] else ""


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    ending = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{count(number)} {noun}{ending}"


def seconds_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def visible(text: object) -> str:
    """Text that may go to a terminal or into XML: control characters are spelled out instead of obeyed."""
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", str(text))
