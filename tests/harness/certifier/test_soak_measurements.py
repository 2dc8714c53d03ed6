"""A certificate shows the results of a soak: its version, its deaths, whether every row was there once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.certifier.circumstances import fingerprint
from sinkproof.certifier.soak_measurements import soak_measurements
from sinkproof.reports.document import DocumentError

FOUND: dict[str, Any] = {
    "schema": "sinkproof/soak/1",
    "fingerprint": "of other sources",
    "hours": 1.0,
    "rounds": 3,
    "rows": 1_234_567,
    "exact": True,
    "wrong": [],
    "deaths": {"kill attempt": 1_000, "kill coordinator": 200},
    "recovery_ms": {"p50": 61.4, "p95": 130.2, "most": 9_000.0},
    "memory": {"driver": {"start_bytes": 90 << 20, "end_bytes": 91 << 20, "most_bytes": 95 << 20}},
    "memory_grown": [],
    "left": [],
}


def shown(tmp_path: Path, **changes: Any) -> dict[str, tuple[str, str]]:
    path = tmp_path / "soak.json"
    path.write_text(json.dumps(FOUND | changes))
    os.utime(path, (0, 0))
    return {each.name: (each.value, each.note) for each in soak_measurements(path)}


def test_a_soak_has_five_measurements(tmp_path: Path) -> None:
    assert {
        "soak on Spark": ("1.00 h, every row once", "ended 1970-01-01 00:00 UTC, by another version of these sources"),
        "soak: rows committed": ("1,234,567", "in 3 rounds"),
        "soak: deaths": ("1,200", "kill attempt: 1,000, kill coordinator: 200"),
        "soak: death to next checkpoint": ("p50 61 ms", "p95 130 ms, longest 9,000 ms"),
        "soak: memory": ("flat", "MiB in the first and the last quarter: driver 90 → 91"),
    } == shown(tmp_path)


def test_errors_of_a_soak_come_first(tmp_path: Path) -> None:
    found = shown(tmp_path, exact=False, wrong=["round 3: 7 rows twice"], memory_grown=["driver"], left=["process 17"])
    assert found["soak on Spark"][0] == "1.00 h, WRONG"
    assert found["soak on Spark"][1].startswith("round 3: 7 rows twice; left: process 17; ended")
    assert found["soak: memory"][0] == "grown: driver"


def test_a_soak_of_the_same_sources_is_marked_so(tmp_path: Path) -> None:
    assert shown(tmp_path, fingerprint=fingerprint())["soak on Spark"][1].endswith("by this very version")


def test_without_a_soak_there_are_no_measurements(tmp_path: Path) -> None:
    assert [] == soak_measurements(tmp_path / "soak.json")


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "sinkproof/soak/2"}', '{"schema": "sinkproof/soak/1"}'])
def test_a_file_that_is_no_summary_is_refused_with_the_next_step(tmp_path: Path, text: str) -> None:
    path = tmp_path / "soak.json"
    path.write_text(text)
    with pytest.raises(DocumentError, match=r"soak\.json is no summary of a soak: .*make soak"):
        soak_measurements(path)


@pytest.mark.slow
@pytest.mark.parametrize("readable", [True, False])
def test_the_certificate_shows_the_soak_of_the_working_directory(
    tmp_path: Path, sinkproof_command: Callable[..., subprocess.CompletedProcess[str]], readable: bool
) -> None:
    (tmp_path / ".sinkproof").mkdir()
    (tmp_path / ".sinkproof" / "soak.json").write_text(json.dumps(FOUND) if readable else "{")
    done = sinkproof_command(
        "certify", "memory/plain", "--on", "simulated", "--no-canaries", "--budget", "1s", "--json"
    )
    shown = [each["name"] for each in json.loads(done.stdout)["measurements"]]
    assert (readable, not readable) == ("soak on Spark" in shown, "is no summary of a soak" in done.stderr)
