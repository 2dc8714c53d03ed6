"""What the comparison of verdicts on a quiet and a busy machine complains about."""

from __future__ import annotations

import subprocess

import pytest

from ..support.named_budget import named_budget
from .zoo_under_load import judged, trouble

RIGHT, WRONG = "waiting_rows:Waiting", "sqlite_tables:UpsertByCounter"


@pytest.mark.parametrize(
    ("member", "quiet", "busy", "said"),
    [
        (RIGHT, ["upheld"], ["unknown", "upheld"], ""),
        (RIGHT, ["upheld"], ["violated"], f"{RIGHT} is UPHELD and VIOLATED"),
        (RIGHT, ["unknown", "violated"], ["unknown", "upheld"], f"{RIGHT} is UPHELD and VIOLATED"),
        (WRONG, ["violated"], ["unknown", "upheld"], f"{WRONG} is UPHELD and VIOLATED"),
        (WRONG, ["upheld"], ["upheld"], f"{WRONG} is wrong, and UPHELD"),
        (RIGHT, ["violated"], ["violated"], f"{RIGHT} is right, and VIOLATED"),
        (RIGHT, ["upheld"], ["unknown", "unknown"], "0 of 1 budgets that UNKNOWN named decided"),
        (WRONG, ["violated"], ["unknown"], ""),
    ],
)
def test_verdicts_that_must_not_be_are_named(member: str, quiet: list[str], busy: list[str], said: str) -> None:
    assert [said] * bool(said) == list(trouble([member], [quiet], [busy]))


def test_the_budget_that_unknown_names_is_found() -> None:
    assert 140 == named_budget("not struck by a stop; give it a larger --budget: 140s should suffice; and more")
    assert named_budget("no row was committed") is None


def test_nothing_that_was_kept_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, stdout='{"subjects": [{"verdict": "upheld", "why": ""}]}')

    monkeypatch.setattr(subprocess, "run", run)
    assert ["upheld"] == judged(RIGHT)
    assert ["--fresh" in command for command in commands] == [True]
