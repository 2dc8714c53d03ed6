"""The comparison table on a real broker and a real node: one pair each. For all pairs: `sinkproof table --all`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sinkproof.table.measurements import LOST_ALOUD, NOT_LOST

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.longer
@pytest.mark.row("S26")
def test_transactions_of_a_real_broker_have_the_expected_measurements(sinkproof_command: Command) -> None:
    measured = measured_by(sinkproof_command, "kafka/two-phase")
    assert LOST_ALOUD == measured["timeout"]
    assert 0 < measured["requests_per_row"] < 0.5
    assert 127 < measured["target_bytes_per_row"] < 300


@pytest.mark.longer
def test_counters_of_a_real_node_have_the_expected_measurements(sinkproof_command: Command) -> None:
    measured = measured_by(sinkproof_command, "cassandra/write-ahead-counter")
    assert NOT_LOST == measured["timeout"]
    assert 1 <= measured["requests_per_row"] < 1.1
    assert "kill" in measured["worst_schedule"]


def measured_by(sinkproof_command: Command, name: str) -> dict[str, Any]:
    done = sinkproof_command("table", name, "--json")
    assert 0 == done.returncode, done.stdout + done.stderr
    (pair,) = [pair for pair in json.loads(done.stdout)["pairs"] if pair["measured"]]
    assert name == pair["name"]
    measured: dict[str, Any] = pair["measured"]
    return measured
