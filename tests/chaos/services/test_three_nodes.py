"""One of three nodes fails while a sink writes to the other two: the quorum goes on, and no row is lost.

A longer test: three nodes of Cassandra take half a minute to start on an idle machine.
"""

from __future__ import annotations

import pytest

from sinkproof.execution.run_result import RunResult

from ...support.real_services import runs_on_own_service

POINTS = {  # of each pair: rows are in flight, or their outcome is being decided
    "cassandra/masked": ("sink[0].stage.before#2", "sink[1].reveal.before#1"),
    "kafka/two-phase": ("sink[0].pre_commit.before#1", "sink[1].commit.before#1"),
}


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.parametrize("pair", POINTS)
def test_a_quorum_goes_on_without_the_third_node(pair: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with runs_on_own_service(pair, tmp_path_factory, nodes=3) as play:
        assert (True, (), 24) == _end_of(play("no-fault"))
        for point in POINTS[pair]:
            for kind in ("service-kill", "service-pause"):
                run_result = play(f"{point}={kind}")
                assert (1, True, (), 24) == (len(run_result.struck), *_end_of(run_result)), (
                    run_result.schedule,
                    run_result.failure,
                )


def _end_of(run_result: RunResult) -> tuple[bool, tuple[object, ...], int]:
    return run_result.finished, tuple(run_result.anomalies), run_result.rows_committed
