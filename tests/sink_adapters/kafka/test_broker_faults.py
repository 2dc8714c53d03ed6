"""Rows are there once when brokers are killed, stopped or paused, and when messages are lost, late or repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sinkproof.campaign.loop import CONDITIONS
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need
from sinkproof.canaries import kafka as canaries
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.services.kafka.local_kafka import LocalKafka
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.generators.service_faults import EACH_OF, NODE_KINDS, message_faults, node_faults
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import check, load, locator_of
from sinkproof.subject.scratch import Scratch, fresh_folder
from sinkproof.subject.service_options import DEFAULT_SERVICES, ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

from ...support.real_services import end_own_services

pytestmark = [pytest.mark.slow]
SINKS = Path(__file__).parents[2] / "support/kafka_sinks.py"
OF_BROKERS = (
    "sink[0].commit.before#1=service-kill",
    "checkpoint.persist.after#1=service-stop",
    "sink[1].pre_commit.before#1=service-pause",
)
OF_MESSAGES = (
    "broker[1].end_txn.reply#2=drop",
    "broker[1].end_txn.request#1=drop",
    "broker[1].end_txn.request#3=hold",
    "broker[1].end_txn.request#2=double",
    "broker[1].end_txn.reply#1=delay",
    "broker[1].end_txn.request#2=kill-sender",
    "broker[1].end_txn.reply#1=kill-sender",
    "broker[1].produce.reply#1=drop",
    "broker[1].add_partitions.request#1=drop",
    "broker[1].init_producer.reply#1=drop",
)


@contextmanager
def runner_of(contract: Contract, *, options: ServiceOptions = DEFAULT_SERVICES) -> Iterator[ProcessRunner]:
    folder = fresh_folder()
    scratch = Scratch(name="faults", path=folder, shell="process", services=ServicesInUse(options=options))
    with process_runner(contract, scratch) as made:
        yield made
    folder.rmdir()


@pytest.fixture(scope="module")
def runner() -> Iterator[ProcessRunner]:
    """A runner with a broker of its own, behind a proxy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SINKPROOF_KAFKA", raising=False)
        with runner_of(load("kafka/two-phase")) as made:
            yield made
        end_own_services("kafka")


@pytest.mark.parametrize("schedule", [*OF_BROKERS, *OF_MESSAGES])
def test_rows_are_there_once_under_every_fault_of_the_broker(runner: ProcessRunner, schedule: str) -> None:
    run_result = runner.run(parse(schedule))
    assert (True, [], "") == (run_result.finished, list(run_result.anomalies), run_result.failure)
    assert parse(schedule).faults == run_result.struck
    assert 24 == run_result.rows_committed


def test_schedules_have_every_kind_at_every_step_and_at_every_end_of_a_transaction(runner: ProcessRunner) -> None:
    baseline = runner.run(Schedule())
    campaign = ProcessCampaign(runner, CampaignResults(contract=runner.contract, shell="process"))
    campaign._baseline = baseline
    messages = [fault for schedule in message_faults(campaign) for fault in schedule.faults]
    assert {*EACH_OF} == {fault.kind for fault in messages}
    ends = [fault.occurrence for fault in messages if (fault.point, fault.kind) == ("end_txn.reply", "drop")]
    assert [*range(1, sum(point == "commit.after" for _, point in baseline.trace) + 1)] == ends
    campaign.results.add(baseline)
    faults = [fault for schedule in node_faults(campaign) for fault in schedule.faults]
    assert len(faults) == len({(fault.point, fault.kind) for fault in faults})
    for point in ("commit.before", "commit.after", "notify_complete.before", "snapshot.after", "open.before"):
        assert {*NODE_KINDS} == {fault.kind for fault in faults if fault.point == point}
    assert "write.after" in {fault.point for fault in faults[:12]}


def test_a_lost_answer_convicts_a_sink_that_sends_again(runner: ProcessRunner) -> None:
    """Shows that the faults have an effect: the correct sink above was really exposed to them."""
    contract = canaries.SendsAgainWhenNotAnswered
    with runner_of(check(locator_of(contract), contract)) as made:
        run_result = made.run(parse("broker[1].end_txn.reply#1=drop"))
    assert "O2" in {anomaly.oracle for anomaly in run_result.anomalies}


@pytest.mark.parametrize(("name", "oracles"), [("TrustsEveryMark", {"O1"}), ("Marked", set())])
def test_a_death_within_one_call_convicts_what_trusts_marks_of_open_transactions(
    name: str, oracles: set[str], runner: ProcessRunner
) -> None:
    """The client sends rows, and the request to commit them, within one call: no line lies between."""
    runner.run(Schedule())  # starts the broker, whichever test comes first
    with runner_of(load(f"{SINKS}:{name}")) as made:
        campaign = ProcessCampaign(made, CampaignResults(contract=made.contract, shell="process"))
        first = next(message_faults(campaign))
        run_result = made.run(first)
    assert "broker[1].end_txn.request#1=kill-sender" == str(first)
    assert (first.faults, oracles) == (run_result.struck, {anomaly.oracle for anomaly in run_result.anomalies})


def test_the_broker_names_the_transaction_that_hides_rows(runner: ProcessRunner) -> None:
    contract = canaries.LeavesTransactionsOpen
    with runner_of(check(locator_of(contract), contract)) as made:
        run_result = made.run(parse("sink[0].write.after#1=kill"))
    (loss,) = [anomaly for anomaly in run_result.anomalies if anomaly.oracle == "O1"]
    assert "The target says: " in loss.why
    assert "read_committed readers stop at offset" in loss.why
    assert "-700001-1, which its coordinator calls Ongoing, is open there since offset" in loss.why  # either sink's


@pytest.fixture
def through_toxiproxy(runner: ProcessRunner) -> Iterator[ServiceOptions]:
    """For runners that reach the same broker through a real toxiproxy."""
    runner.run(Schedule())  # starts the broker, whichever test comes first
    yield ServiceOptions(network="toxiproxy")
    end_own_services("toxiproxy")
    broker = runner.scratch.services.own["kafka"]
    assert isinstance(broker, LocalKafka)
    assert broker.messages is not None
    broker.messages.reroute({})


def test_connections_break_although_brokers_advertise_their_own_addresses(through_toxiproxy: ServiceOptions) -> None:
    """An answer that never comes, and requests that are held back for a while; the wrong sink shows that they are."""
    with runner_of(load("kafka/two-phase"), options=through_toxiproxy) as made:
        for schedule in ("sink[0].commit.before#2=net-reset-down", "sink[1].pre_commit.before#1=net-latency-up"):
            run_result = made.run(parse(schedule))
            assert (True, (), "", 24) == (
                run_result.finished,
                run_result.anomalies,
                run_result.failure,
                run_result.rows_committed,
            )
            assert parse(schedule).faults == run_result.struck
    contract = canaries.SendsAgainWhenNotAnswered
    with runner_of(check(locator_of(contract), contract), options=through_toxiproxy) as made:
        run_result = made.run(parse("sink[0].commit.before#1=net-reset-down"))
    assert "O2" in {anomaly.oracle for anomaly in run_result.anomalies}


def test_an_external_broker_is_not_broken(broker: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINKPROOF_KAFKA", f"external:{broker.endpoint}")
    with runner_of(load("kafka/plain")) as made:
        made.run(Schedule())
        campaign = ProcessCampaign(made, CampaignResults(contract=made.contract, shell="process"))
        assert not CONDITIONS[Need.SERVICE](campaign)
        with pytest.raises(ContractError, match="no external system can be broken here"):
            made.run(parse("sink[0].write.after#1=service-kill"))
        with pytest.raises(ContractError, match="no proxy of ours stands between"):
            made.run(parse("broker[1].produce.reply#1=drop"))
    assert broker.living()


def test_brokers_get_faults_where_sinks_are_processes() -> None:
    schedule = parse("sink[0].write.after#1=service-kill")
    assert "--on process" in impossible(schedule, load("memory/two-phase"), "simulated")
    assert not impossible(schedule, load("kafka/two-phase"), "process")
