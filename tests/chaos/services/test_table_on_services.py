"""The comparison table on a real broker and a real node: one pair each. For all pairs: `sinkproof table --all`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from sinkproof.table.measurements import LOST_ALOUD, NOT_LOST

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
@pytest.mark.row("S26")
def test_a_real_broker_and_a_real_node_have_the_expected_measurements(sinkproof_command: Command) -> None:
    names = ["kafka/two-phase", "cassandra/write-ahead-counter"]
    done = sinkproof_command("table", *names, "--json")
    assert 0 == done.returncode, done.stdout + done.stderr
    found = {pair["name"]: pair["measured"] for pair in json.loads(done.stdout)["pairs"] if pair["measured"]}
    assert names == list(found)
    transactional, counting = found.values()
    assert (LOST_ALOUD, NOT_LOST) == (transactional["timeout"], counting["timeout"])
    assert 0 < transactional["requests_per_row"] < 0.5
    assert 127 < transactional["target_bytes_per_row"] < 300
    assert 1 <= counting["requests_per_row"] < 1.1
    assert "kill" in counting["worst_schedule"]
