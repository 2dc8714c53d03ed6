"""The comparison table: each pair has a cell, each empty cell a reason, and pairs measure as expected."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.table import table_document as run
from sinkproof.table.expected_and_empty_cells import (
    EVERY_PAIR,
    TARGETS,
    WAYS,
    WHY_NOT,
    TableCell,
    cell_of,
    offers,
    pairs_on,
)
from sinkproof.table.machine import file_system
from sinkproof.table.measurements import LOST_ALOUD, NOT_LOST, NotMeasured, PairMeasures, differences

Command = Callable[..., subprocess.CompletedProcess[str]]
AS_EXPECTED = PairMeasures(
    grade="exactly-once",
    crashes=24,
    breaks_a_claim=False,
    worst_schedule="",
    visible_after_checkpoints=1,
    visible_ms_p50=50.0,
    visible_ms_p95=96.0,
    look_ms=1.0,
    rows_per_second=50_000,
    memory_bytes_peak=1 << 20,
    requests_per_row=0.02,
    target_bytes_per_row=180.0,
    state_bytes_per_row=0.1,
    extra_bytes_per_row=53.1,
    state_bytes_most=90,
    timeout=LOST_ALOUD,
)


def test_every_pair_has_one_cell_and_every_empty_cell_a_reason() -> None:
    taken = {cell_of(name) for name in EVERY_PAIR}
    assert {TableCell(strategy, target) for strategy in WAYS for target in TARGETS} == taken | WHY_NOT.keys()
    assert not taken & WHY_NOT.keys()
    assert sorted(EVERY_PAIR) == sorted(pairs_on(TARGETS))
    assert all(offers(strategy) for strategy in WAYS)


def test_a_reason_names_registered_pairs_in_one_or_two_sentences() -> None:
    named = {word.strip(".,:") for why in WHY_NOT.values() for word in why.split() if "/" in word}
    assert named <= EVERY_PAIR.keys()
    assert all(20 < len(why) < 220 for why in WHY_NOT.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"grade": "at-least-once"}, ["grade: expected exactly-once, measured at-least-once"]),
        ({"visible_after_checkpoints": 0}, ["visible_after_checkpoints: expected 1, measured 0"]),
        ({"timeout": NOT_LOST}, [f"timeout: expected {LOST_ALOUD}, measured {NOT_LOST}"]),
        ({"breaks_a_claim": True}, ["a claim broke"]),
    ],
)
def test_each_difference_from_the_expected_is_named(change: dict[str, Any], said: list[str]) -> None:
    assert said == differences("kafka/two-phase", replace(AS_EXPECTED, **change))


def test_a_difference_makes_the_table_violated_and_a_failed_measurement_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(name: str, **_: Any) -> PairMeasures:
        if name == "memory/masked":
            raise NotMeasured("its driver is gone")
        return AS_EXPECTED

    monkeypatch.setattr(run, "measure", measure)
    reported: list[str] = []

    def verdict(*pairs: str) -> str:
        return str(
            run.table(["memory"], pairs=pairs, report=lambda name, what: reported.append(f"{name}: {what}"))["verdict"]
        )

    assert "upheld" == verdict("memory/two-phase")
    assert "violated" == verdict("memory/two-phase", "memory/plain", "memory/masked")
    assert "unknown" == verdict("memory/two-phase", "memory/masked")
    assert "memory/masked: not measured: its driver is gone" == reported[-1]


def test_a_file_system_is_named_by_its_kind(tmp_path: Path) -> None:
    assert "proc" == file_system(Path("/proc/self"))
    assert "unknown" != file_system(tmp_path)


def test_the_registered_pairs_are_listed_without_measuring(sinkproof_command: Command) -> None:
    listed = sinkproof_command("table", "--registered", "--json")
    assert list(EVERY_PAIR) == [row["name"] for row in json.loads(listed.stdout)]


def test_an_unknown_pair_is_refused(sinkproof_command: Command) -> None:
    refused = sinkproof_command("table", "kafka/three-phase")
    assert 3 == refused.returncode
    assert "there is no pair 'kafka/three-phase'" in refused.stderr


@pytest.mark.parametrize("content", ["", "[]", '{"schema": "sinkproof/certificate/1"}'])
def test_a_file_that_is_no_table_is_refused(sinkproof_command: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "other.json").write_text(content)
    refused = sinkproof_command("table", "--from", "other.json")
    assert 3 == refused.returncode
    assert "sinkproof: other.json is not a table of sinkproof" in refused.stderr


@pytest.mark.slow
@pytest.mark.row("S26")
def test_pairs_on_memory_and_files_measure_as_expected(sinkproof_command: Command, tmp_path: Path) -> None:
    done = sinkproof_command("table", "--out", "out")
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "files/two-phase: crashing it at" in done.stderr
    document = json.loads((tmp_path / "out/table.json").read_text())
    assert ("upheld", "sinkproof/table/1") == (document["verdict"], document["schema"])
    rows = {pair["name"]: pair["measured"] for pair in document["pairs"]}
    measured = {name for name, figures in rows.items() if figures is not None}
    assert set(pairs_on(["memory", "files"])) == measured
    assert all(rows[name]["crashes"] >= 20 for name in measured)
    for target in ("memory", "files"):
        plain, ahead, whole = (rows[f"{target}/{strategy}"] for strategy in ("plain", "write-ahead", "two-phase"))
        assert (0, 1) == (plain["visible_after_checkpoints"], whole["visible_after_checkpoints"])
        assert 1 <= ahead["requests_per_row"] < 1.1  # rows are sent one by one, when their checkpoint is complete
        assert whole["requests_per_row"] < 0.1
        assert ahead["state_bytes_per_row"] > 100 > whole["state_bytes_per_row"]
        assert ahead["memory_bytes_peak"] > 2 * whole["memory_bytes_peak"] + (1 << 20)
    assert {"table.txt", "table.md", "table.json", "table.html"} == {each.name for each in (tmp_path / "out").iterdir()}
