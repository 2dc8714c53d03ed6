"""Of each file of a user's sink: the lines that were executed and struck, and the statements that never ran."""

from __future__ import annotations

from collections.abc import Iterable

from sinkproof.certifier.subject_progress import SubjectProgress, statements_never_run
from sinkproof.chaos.points import LINE
from sinkproof.reports.document import CodeCoverage
from sinkproof.subject.static_analysis.reachable_lines import Duty


def code_coverage(subject: SubjectProgress) -> list[CodeCoverage]:
    """Of each file of a user's sink with an executed line, or with a statement that should have been."""
    passed: dict[str, list[str]] = {name: [] for name in subject.own_code.files.values()}
    never_run = {duty: statements_never_run(subject, duty) for duty in Duty}
    found = []
    for file, lines in _by_file(subject.lines_passed, passed).items():
        struck = {kind: len(points.intersection(lines)) for kind, points in subject.lines_by_kind.items()}
        covered = len(subject.lines_covered.intersection(lines))
        left = {duty: _numbers(points, file) for duty, points in never_run.items()}
        of_children = subject.lines_of_children - subject.lines_passed
        if subject.contract.is_ours or not (lines or any(left.values())):
            continue
        found.append(
            CodeCoverage(
                file=file,
                executed=len(lines),
                killed=struck["kill"] - covered,
                covered=covered,
                stopped=struck["stop"],
                paused=struck["pause"],
                of_children=_numbers(of_children, file),
                never_run=left[Duty.NORMAL],
                handlers_never_run=left[Duty.EXCEPTIONAL],
                excluded=left[Duty.EXCLUDED],
            )
        )
    return found


def _by_file(points: Iterable[str], files: dict[str, list[str]]) -> dict[str, list[str]]:
    for point in points:
        if (match := LINE.fullmatch(point)) is not None:
            files.setdefault(match["file"].replace("%20", " "), []).append(point)
    return dict(sorted(files.items()))


def _numbers(points: Iterable[str], file: str) -> list[int]:
    return sorted(int(point.rpartition(":")[2].rstrip(")")) for point in _by_file(points, {}).get(file, ()))
