"""The Cassandra pairs on a real node, crashed at the critical points; and faults of the node itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.cassandra.local_cassandra import LocalCassandra
from sinkproof.execution.run_result import RunResult
from sinkproof.sink_adapters.registry import SERVICE_PAIRS
from sinkproof.subject.loading import load

from ...support.real_services import RunPair, runs_against, runs_on_own_service

MASKED = (
    "no-fault",
    "sink[0].stage.after#1=kill",  # staged, not acknowledged
    "sink[0].notify_complete.before#2=kill",  # between the decision and the marker
    "sink[1].reveal.after#1=kill",  # revealed, not acknowledged
    "sink[0].write.after#2=stop",  # a zombie that continues to stage
    "sink[0].reveal.before#2=stop",  # a marker that arrives after the recovery
)


@pytest.fixture(scope="module")
def run(node: LocalCassandra) -> Iterator[RunPair]:
    with runs_against(node) as play:
        yield play


def oracles(run_result: RunResult) -> set[str]:
    return {anomaly.oracle for anomaly in run_result.anomalies}


@pytest.mark.row("S25")
@pytest.mark.parametrize("schedule", MASKED)
def test_a_marker_reveals_rows_once_whatever_dies(run: RunPair, schedule: str) -> None:
    run_result = run("cassandra/masked", schedule)
    assert (True, set(), "") == (run_result.finished, oracles(run_result), run_result.failure)
    assert parse(schedule).faults == run_result.struck
    assert 24 == run_result.rows_committed


@pytest.mark.row("S24")
def test_rows_that_are_sent_again_are_upserted_again(run: RunPair) -> None:
    """Sent, but not recorded: the table is idempotent; only a reader of its change log receives rows twice."""
    assert set() == oracles(run("cassandra/write-ahead", "no-fault"))
    run_result = run("cassandra/write-ahead", "sink[0].publish.after#1=kill")
    assert ({"O3"}, 24) == (oracles(run_result), run_result.rows_committed)


@pytest.mark.row("S24")
@pytest.mark.parametrize("pair", ["cassandra/write-ahead-counter", "cassandra/write-ahead-list"])
def test_counters_and_lists_duplicate_rows_that_are_sent_again(run: RunPair, pair: str) -> None:
    assert set() == oracles(run(pair, "sink[0].record.after#1=kill"))
    run_result = run(pair, "sink[0].publish.after#1=kill")
    assert {"O2"} == oracles(run_result)
    assert run_result.rows_committed > 24


@pytest.mark.row("S19")
def test_upserts_are_right_in_the_end_where_a_replay_makes_the_same_keys(run: RunPair) -> None:
    run_result = run("cassandra/idempotent", "sink[0].upsert.after#2=kill")
    assert ({"O3"}, 24) == (oracles(run_result), run_result.rows_committed)
    run_result = run("cassandra/idempotent-own-key", "sink[0].upsert.after#2=kill")
    assert "O2" in oracles(run_result)
    assert run_result.rows_committed > 24


def test_every_pair_has_its_claims_and_grade_and_a_sentence() -> None:
    pairs = {name.removeprefix("cassandra/"): pair for name, pair in SERVICE_PAIRS.items() if "cassandra" in name}
    weak = {"write-ahead-counter", "write-ahead-list", "idempotent-own-key"}
    assert {"masked", "idempotent", "write-ahead"} | weak == set(pairs)
    assert weak == {name for name, pair in pairs.items() if pair.grade == "at-least-once"}
    for name, pair in pairs.items():
        contract = load(f"cassandra/{name}")
        assert (pair.grade, pair.claims) == (contract.grade, pair.contract().claims)
        assert ("process", "spark") == pair.contract().shells


@pytest.fixture(scope="module")
def strike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RunResult]]:
    """A run of the masked pair on a node of its own, which may be broken."""
    with runs_on_own_service("cassandra/masked", tmp_path_factory) as play:
        yield play


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["service-kill", "service-pause"])
def test_a_killed_or_paused_node_loses_no_row(strike: Callable[[str], RunResult], kind: str) -> None:
    """The second marker is sent to a node that has just restarted, or that answers after the timeout."""
    run_result = strike(f"sink[0].reveal.before#2={kind}")
    assert (True, set(), 1) == (run_result.finished, oracles(run_result), len(run_result.struck))
    assert 24 == run_result.rows_committed
