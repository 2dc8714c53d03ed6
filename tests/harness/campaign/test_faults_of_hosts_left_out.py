"""Faults that a kernel, or its tools, cannot carry out are left out of a campaign on hosts, and named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.spark_campaign import SparkCampaign
from sinkproof.campaign.spark_endurance import EndurancePlan
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.faults.faults_of_hosts import OF_HOSTS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.services.spark_cluster.namespace_hosts import CUT_OUT, SLOW
from sinkproof.execution.host_faults import ClusterHosts
from sinkproof.execution.spark_runner import SparkRunner
from sinkproof.generators import host_schedules
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

WHY = "Qdisc not found"


class WithoutRuns(SparkCampaign):
    """Notes what would run."""

    def run_schedules(self, schedules: Any, **_: Any) -> None:
        self.would_run = [str(each) for each in schedules]


def each_kind(_: object) -> list[Schedule]:
    return [parse(f"sink[0].snapshot.before#1={kind.word}") for kind in OF_HOSTS]


def campaign_without(tmp_path: Path, unfit: dict[str, str]) -> WithoutRuns:
    spark: Any = SimpleNamespace(hosts=SimpleNamespace(unfit=unfit))
    nothing: Any = None
    contract = load("files/two-phase")
    scratch = Scratch(name="left-out", path=tmp_path, shell="spark")
    hosts = ClusterHosts(spark=spark, relays=nothing)
    runner = SparkRunner(contract, scratch, cluster=nothing, folder=tmp_path, hosts=hosts)
    campaign = WithoutRuns(runner, CampaignResults(contract=contract, shell="spark"), endurance=EndurancePlan())
    campaign._carry_out(Stage(name="faults of hosts", schedules=each_kind), campaign.stage)
    return campaign


def test_kinds_that_cannot_be_carried_out_are_not_run_and_are_named(tmp_path: Path) -> None:
    campaign = campaign_without(tmp_path, {SLOW: WHY})
    assert [str(each) for each in each_kind(None) if "slow-link" not in str(each)] == campaign.would_run
    assert not campaign.stage.finished
    assert campaign.stage.cut.endswith(f"such as slow-link: {WHY}")
    campaign = campaign_without(tmp_path, {CUT_OUT: WHY})
    assert "sink[0].snapshot.before#1=cut-out" not in campaign.would_run
    assert "sink[0].snapshot.before#1=cut-all" in campaign.would_run


def test_a_kind_that_never_struck_leaves_a_doubt_although_its_stage_ran(tmp_path: Path) -> None:
    campaign = campaign_without(tmp_path, {})
    campaign.results.steering.required_stages_done = True
    for kind, point in host_schedules.FIRST:
        campaign.results.coverage.count(point, kind, fired=kind != "cut-in")
    campaign.doubt_kinds_that_never_struck()
    (why,) = campaign.results.unknowns
    assert why.startswith("none of the schedules with cut-in struck a host")
    campaign.results.coverage.count("notify_complete.before", "cut-in")
    campaign.results.unknowns.clear()
    campaign.doubt_kinds_that_never_struck()
    assert [] == campaign.results.unknowns


@pytest.mark.parametrize(("how", "kind", "notes", "unknowns"), [(SLOW, "slow-link", 1, 0), (CUT_OUT, "cut-out", 0, 1)])
def test_a_kind_that_cannot_be_carried_out_is_one_line_and_a_doubt_only_if_it_is_a_cut(
    how: str, kind: str, notes: int, unknowns: int, tmp_path: Path
) -> None:
    campaign = campaign_without(tmp_path, {how: WHY})
    campaign.results.steering.required_stages_done = True
    for each, point in host_schedules.FIRST:
        if each != kind:
            campaign.results.coverage.count(point, each)
    campaign.doubt_kinds_that_never_struck()
    assert (notes, unknowns) == (len(campaign.results.notes), len(campaign.results.unknowns))
    (line,) = [*campaign.results.notes, *campaign.results.unknowns]
    assert line == f"no host had a {kind}, because this kernel, or its tools, cannot do that: {WHY}"


def test_every_kind_runs_where_each_can_be_carried_out(tmp_path: Path) -> None:
    campaign = campaign_without(tmp_path, {})
    assert len(OF_HOSTS) == len(campaign.would_run)
    assert (True, "") == (campaign.stage.finished, campaign.stage.cut)
