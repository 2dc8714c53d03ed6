"""The crash space of a subject: faults by steps of the protocol."""

from __future__ import annotations

from sinkproof.reports import grid
from sinkproof.reports import report_facts as facts

from ..support import sample_certificate
from ..support.sample_certificate import sample


def test_the_grid_has_known_steps_in_order_and_lines_file_by_file() -> None:
    found = grid.grid(facts.filled(sample())["subjects"][0])
    assert (
        ("simulated", "kill"),
        ("simulated", "lose"),
        ("simulated", "stop"),
        ("process", "kill"),
        ("process", "stop"),
    ) == found.columns
    assert [*sample_certificate.POINTS, "lines of two_phase.py"] == [row.point for row in found.rows]
    assert grid.Cell(outcome="upheld", runs=18 * 24) == found.rows[-1].cells[0]


def test_a_cell_shows_its_gravest_outcome() -> None:
    cells = [grid.Cell(outcome=name, runs=1) for name in ("upheld", "unfired", "violated", "finding")]
    assert grid.Cell(outcome="violated", runs=4) == grid.worst(cells)
    assert grid.Cell(outcome="none", runs=0) == grid.worst([])
