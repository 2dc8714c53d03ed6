"""The crash space of a subject as a grid: protocol steps by kinds of faults, each cell the worst outcome.

Steps are grouped by the word before the dot (commit.before, commit.after), in the document's order, which is the
protocol's; then come the sink's own lines, one row per file. Kinds of faults are grouped by shell, those injected at
most places first. An unknown step or kind of fault gets a row or column of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sinkproof.reports.document import Document

SEVERITY: Final = ("violated", "finding", "upheld", "unfired", "none")
LINE_POINT: Final = re.compile(r"line\((?P<file>[^()]+):(?P<number>\d+)\)")
LINES_OF: Final = "lines of "


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    outcome: str
    runs: int
    covered: int = 0  # other crashes there, covered by an equal run


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """A protocol step, or all lines of one file; one cell per column. `first`: a group of steps begins."""

    point: str
    first: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    columns: tuple[tuple[str, str], ...]  # (shell, fault)
    rows: tuple[GridRow, ...]

    def by_shell(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """Each shell with its kinds of faults and the index of each in a row."""
        shells: dict[str, list[tuple[str, int]]] = {}
        for index, (shell, fault) in enumerate(self.columns):
            shells.setdefault(shell, []).append((fault, index))
        return list(shells.items())

    def spans(self, column: int) -> list[tuple[Cell, bool, int]]:
        """A column's cells from step to step: (cell, a group begins, number of steps), adjacent empty cells merged."""
        found: list[tuple[Cell, bool, int]] = []
        for row in self.rows:
            cell = row.cells[column]
            if cell.outcome == "none" and found and found[-1][0] == cell:
                found[-1] = (cell, found[-1][1], found[-1][2] + 1)
            else:
                found.append((cell, row.first, 1))
        return found

    def broken(self) -> dict[str, list[str]]:
        """Fault and shell -> the steps at which it broke a claim."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            for (shell, fault), cell in zip(self.columns, row.cells, strict=True):
                if cell.outcome == "violated":
                    found.setdefault(f"{fault} ({shell})", []).append(row.point)
        return found

    def counts(self) -> dict[str, int]:
        """Outcome -> how many cells have it; those that were not tried are not counted."""
        found = [cell.outcome for row in self.rows for cell in row.cells]
        return {outcome: found.count(outcome) for outcome in SEVERITY[:-1]}


def grid(subject: Document) -> Grid:
    """Every named step that is known or had a fault, then the lines."""
    cells: dict[tuple[str, str, str], Cell] = {}
    for shell in subject["shells"]:
        for outcome in shell["outcomes"]:
            key = (row_of(outcome["point"]), shell["shell"], outcome["fault"])
            before = [cells[key]] if key in cells else []
            cells[key] = worst([_cell(outcome), *before])
    columns = _columns(cells)
    faulted = dict.fromkeys(point for point, _, _ in cells)
    known = [point for shell in subject["shells"] for point in shell["points_known"]]
    points = [point for point in dict.fromkeys([*known, *faulted]) if not point.startswith(LINES_OF)]
    lines = [point for point in faulted if point.startswith(LINES_OF)]
    rows: list[GridRow] = []
    for point in [*points, *lines] if columns else []:
        first = not rows or group_of(rows[-1].point) != group_of(point)
        found = tuple(cells.get((point, *column), worst(())) for column in columns)
        rows.append(GridRow(point=point, first=first, cells=found))
    return Grid(columns=tuple(columns), rows=tuple(rows))


def worst(cells: Sequence[Cell]) -> Cell:
    """Several cells as one: the gravest outcome, the sum of runs."""
    outcome = min((cell.outcome for cell in cells), key=SEVERITY.index, default="none")
    return Cell(outcome=outcome, runs=sum(cell.runs for cell in cells), covered=sum(cell.covered for cell in cells))


def _cell(outcome: Document) -> Cell:
    return Cell(outcome=outcome["outcome"], runs=outcome["runs"], covered=outcome["covered"])


def point_outcome(shell: Document, point: str) -> Cell:
    """The outcome of a point in this shell, over all faults."""
    return worst([_cell(outcome) for outcome in shell["outcomes"] if outcome["point"] == point])


def row_of(point: str) -> str:
    """All lines of a file share a row, whether the document counts them one by one or together."""
    match = LINE_POINT.fullmatch(point)
    return f"{LINES_OF}{match['file']}" if match else point


def group_of(point: str) -> str:
    return LINES_OF if point.startswith(LINES_OF) else point.partition(".")[0]


def _columns(cells: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    found = [(shell, fault) for _, shell, fault in cells]
    shells = list(dict.fromkeys(shell for shell, _ in found))
    return sorted(dict.fromkeys(found), key=lambda column: (shells.index(column[0]), -found.count(column), column[1]))
