"""The Kafka pairs on a real broker, crashed at the critical points."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sinkproof.chaos.schedule import parse
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.sink_adapters.registry import SERVICE_PAIRS
from sinkproof.subject.loading import load

from ...support.real_services import RunPair, runs_against

SCHEDULES = (
    "no-fault",
    "sink[0].notify_complete.before#2=kill",  # between the decision and the commit
    "sink[0].pre_commit.after#1=kill",  # pre-committed, not acknowledged
    "sink[1].commit.after#1=kill",  # committed, not noted
    "sink[0].write.after#2=stop",  # a zombie with an open transaction
)


@pytest.fixture(scope="module")
def run(broker: LocalKafka) -> Iterator[RunPair]:
    with runs_against(broker) as play:
        yield play


@pytest.mark.row("S23")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_are_there_once_whatever_dies(run: RunPair, schedule: str) -> None:
    run_result = run("kafka/two-phase", schedule)
    assert (True, [], "") == (run_result.finished, list(run_result.anomalies), run_result.failure)
    assert parse(schedule).faults == run_result.struck
    assert 24 == run_result.rows_committed


@pytest.mark.row("S20")
@pytest.mark.parametrize("point", ["publish.before", "publish.after", "record.after", "notify_complete.after"])
def test_a_marker_in_the_transaction_closes_the_holes_of_write_ahead(run: RunPair, point: str) -> None:
    run_result = run("kafka/write-ahead-marker", f"sink[0].{point}#1=kill")
    assert (True, [], 1) == (run_result.finished, list(run_result.anomalies), len(run_result.struck))
    assert 24 == run_result.rows_committed


@pytest.mark.row("S20")
def test_a_committer_of_its_own_leaves_the_hole_open(run: RunPair) -> None:
    """Sent, and not recorded: sent again."""
    run_result = run("kafka/write-ahead", "sink[0].publish.after#1=kill")
    assert {"O2"} == {anomaly.oracle for anomaly in run_result.anomalies}
    assert not run("kafka/write-ahead", "sink[0].record.after#1=kill").anomalies


@pytest.mark.row("S25")
@pytest.mark.parametrize("schedule", ["sink[0].reveal.before#1=kill", "sink[1].reveal.after#1=kill", SCHEDULES[-1]])
def test_a_marker_reveals_rows_once(run: RunPair, schedule: str) -> None:
    run_result = run("kafka/masked", schedule)
    assert (True, [], 1) == (run_result.finished, list(run_result.anomalies), len(run_result.struck))
    assert 24 == run_result.rows_committed


@pytest.mark.row("S27")
def test_a_plain_sink_repeats_rows(run: RunPair) -> None:
    run_result = run("kafka/plain", "sink[0].snapshot.after#1=kill")
    assert "O2" in {anomaly.oracle for anomaly in run_result.anomalies}
    assert "O1" not in {anomaly.oracle for anomaly in run_result.anomalies}


@pytest.mark.row("S19")
def test_a_reader_that_folds_by_key_ends_right(run: RunPair) -> None:
    run_result = run("kafka/idempotent", "sink[0].snapshot.after#1=kill")
    assert {"O3"} == {anomaly.oracle for anomaly in run_result.anomalies}


def test_every_pair_is_on_a_service_and_has_its_claims_and_grade() -> None:
    pairs = {name: pair for name, pair in SERVICE_PAIRS.items() if name.startswith("kafka/")}
    assert {"two-phase", "write-ahead", "write-ahead-marker", "masked", "idempotent", "plain"} == {
        name.removeprefix("kafka/") for name in pairs
    }
    for name, pair in pairs.items():
        contract = load(name)
        assert (pair.grade, pair.claims) == (contract.grade, pair.contract().claims)
        assert ("process", "spark") == pair.contract().shells
