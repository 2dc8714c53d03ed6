"""The endurance job on three hosts of real Spark, with one fault of each kind: exact, and each was struck."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.campaign.spark_campaign import ON_HOSTS
from sinkproof.campaign.spark_endurance import EnduranceJob
from sinkproof.chaos.faults.faults_of_hosts import CUT, HEAL, KILL_HOST, SENTENCES
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.namespace_hosts import NamespaceHosts
from sinkproof.execution.spark_runner import spark_runner
from sinkproof.reports.progress import SILENT
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

pytestmark = [pytest.mark.longer, pytest.mark.timeout(1200)]
STEPS = [("sink[0]", "notify_complete.before"), ("sink[1]", "commit.after"), ("sink[0]", "open.after")]


def test_each_kind_of_fault_strikes_and_no_row_is_lost_or_repeated(tmp_path: Path) -> None:
    try:
        with NamespaceHosts(1, shared=[]):
            pass
    except ServiceUnavailable as unavailable:
        pytest.skip(" ".join(str(unavailable).split()))
    before = descendants(os.getpid(), parents_of_all())
    plan = replace(ON_HOSTS, of_hosts=dict.fromkeys(SENTENCES, 1), rows=500)
    scratch = Scratch(name="test", path=tmp_path, shell="spark")
    with spark_runner(load("files/two-phase"), scratch, master="cluster:3") as runner:
        outcome = EnduranceJob(runner, plan, steps=STEPS, progress=SILENT).run()
    result = outcome.run_result
    assert (True, ()) == (result.finished, result.anomalies), result.failure
    struck = Counter(fault.kind for fault in result.struck)
    assert {*SENTENCES} <= {*struck}
    assert struck[CUT] == 1 + struck[HEAL]  # what is healed was cut
    assert struck[KILL_HOST] + struck["kill"] == result.kills
    assert result.rows_committed >= 500
    assert [] == [pid for pid in descendants(os.getpid(), parents_of_all()) if pid not in before]
