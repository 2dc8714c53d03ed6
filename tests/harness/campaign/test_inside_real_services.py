"""Kafka and Cassandra, killed before each outward call of their commits and of their restarts."""

from __future__ import annotations

import pytest

from sinkproof.campaign.outward_calls_plan import INSIDE_SERVICE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.reports.watched_calls import InsideService
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

pytestmark = [pytest.mark.longer, pytest.mark.timeout(3600), pytest.mark.usefixtures("watch_of_system_calls")]


def killed_inside(subject: str) -> InsideService:
    """What was counted, once nothing was found."""
    services = ServicesInUse(options=ServiceOptions(inside_service=True))
    contract = load(subject)
    with scratch_folder() as folder:
        scratch = Scratch(name="inside", path=folder, shell="process", services=services)
        results = CampaignResults(contract=contract, shell="process", services=services)
        with process_runner(contract, scratch) as runner:
            ProcessCampaign(runner, results).carry_out(INSIDE_SERVICE)
    found = results.coverage.inside.document()
    assert ([], []) == (results.findings, results.unknowns)
    assert found is not None
    assert 0 == found.left_total, found.left
    return found


def test_kafka_keeps_what_it_acknowledged_at_each_call_of_a_commit_and_of_a_restart() -> None:
    found = killed_inside("kafka/two-phase")
    assert found.service.startswith("Kafka 4.2.1")
    assert {"snapshot", "notify_complete", "open"} == set(found.steps)
    assert "notify_complete: syscall(write __transaction_state-*/*.log)" in found.names
    assert len(found.restart_names) > 50
    assert not any("__cluster_metadata" in name for name in found.names)  # its heartbeat


def test_cassandra_keeps_what_it_acknowledged_when_its_commit_log_is_written_by_calls() -> None:
    found = killed_inside("cassandra/masked")
    assert found.service.startswith("Cassandra 5.0.9")
    assert any("commitlog_compression" in setting for setting in found.settings)
    assert "notify_complete: syscall(write commitlog/*-*-*.log)" in found.names
    assert [] == found.unseen
