"""Waivers: they change the exit status and never a verdict; what is written wrongly is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from sinkproof.certifier.waivers import Waiver, WaiverCheck, WaiverError, waivers_of
from sinkproof.reports.document import Document

from ...support.sample_certificate import NAME_HOSTILE, sample

TODAY = date(2026, 6, 1)
WAIVER = Waiver(
    subject=NAME_HOSTILE,
    claim="NO_DUPLICATES",
    cause="R1",
    reason="moves to a transaction in July",
    owner="data team",
    expiry=TODAY,
)
TABLE = """
[[tool.sinkproof.waivers]]
subject = "my_sink.py:MyContract"
claim = "NO_DUPLICATES"
cause = "O2 in MySink.publish"
reason = "moves to a transaction in July"
owner = "data team"
expiry = 2026-06-01
"""


def violated() -> Document:
    """The violated subject of the sample alone."""
    return {**sample(), "subjects": [sample()["subjects"][1]]}


def status(document: Document, *waivers: Waiver, today: date = TODAY) -> int:
    before = copy.deepcopy(document)
    found = WaiverCheck(document=document, waivers=waivers, today=today).exit_status
    assert before == document
    return found


@pytest.mark.parametrize("cause", ["R1", "R1 in EvilSink.publish", "O2", "O2 in EvilSink.publish"])
def test_a_violation_that_is_waived_leaves_the_verdict_and_gives_status_0(cause: str) -> None:
    waiver = replace(WAIVER, cause=cause)
    assert 1 == status(violated())
    assert 0 == status(violated(), waiver)
    first, second = WaiverCheck(document=violated(), waivers=[waiver], today=TODAY).lines()
    assert "VIOLATED, 1 waived" == first
    where = f"{NAME_HOSTILE}, NO_DUPLICATES, R1 in EvilSink.publish"
    assert f"waived: {where}: moves to a transaction in July (data team, until 2026-06-01)" == second


@pytest.mark.parametrize(
    "other",
    [
        {"subject": "another.py:Sink"},
        {"claim": "NO_LOSS"},
        {"cause": "R5"},
        {"cause": "O1"},
        {"cause": "R1 in EvilSink.open"},
    ],
)
def test_a_waiver_that_met_nothing_is_reported(other: dict[str, str]) -> None:
    waiver = replace(WAIVER, **other)
    assert 1 == status(violated(), waiver)
    (line,) = WaiverCheck(document=violated(), waivers=[waiver], today=TODAY).lines()
    assert f"a waiver met nothing: {waiver.text}. Remove it if the violation is mended" == line


def test_a_subject_that_pytest_names_by_its_full_path_is_met() -> None:
    document = violated()
    document["subjects"][0]["name"] = "/home/me/sinks/my_sink.py:Mine"
    found = [replace(WAIVER, subject=name) for name in ("sinks/my_sink.py:Mine", "y_sink.py:Mine", "/home/me:Mine")]
    assert [0, 1, 1] == [status(document, waiver) for waiver in found]


def test_a_waiver_counts_until_its_last_day() -> None:
    tomorrow = date(2026, 6, 2)
    assert (0, 1) == (status(violated(), WAIVER), status(violated(), WAIVER, today=tomorrow))
    (line,) = WaiverCheck(document=violated(), waivers=[WAIVER], today=tomorrow).lines()
    assert line.startswith("a waiver expired on 2026-06-01: ")


def test_every_violation_must_be_waived() -> None:
    document = violated()
    finding = next(each for each in document["subjects"][0]["findings"] if each["claimed"])
    other = copy.deepcopy(finding)
    other["line"]["function"] = "EvilSink.open"
    document["subjects"][0]["findings"].append(other)
    narrow = replace(WAIVER, cause="R1 in EvilSink.publish")
    assert (1, 0) == (status(document, narrow), status(document, WAIVER))
    assert "VIOLATED, 1 waived, 1 not" == WaiverCheck(document=document, waivers=[narrow], today=TODAY).lines()[0]


def test_what_is_unknown_beside_a_waived_violation_stays_so() -> None:
    undecided, blind, unfinished, failed = violated(), violated(), violated(), violated()
    undecided["subjects"][0]["claims"][0]["verdict"] = "unknown"
    blind["canaries"][0]["convicted"] = False
    unfinished["complete"] = False
    failed["failures"] = [{"why": "the machine", "whose": "ours", "details": ""}]
    assert [2, 2, 2, 4] == [status(each, WAIVER) for each in (undecided, blind, unfinished, failed)]
    assert 2 == status(sample(), WAIVER)  # another subject is UNKNOWN
    assert 1 == status(failed)


def read(folder: Path, text: str) -> list[Waiver]:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    (folder / "below").mkdir(exist_ok=True)
    return waivers_of(folder / "below")


def test_waivers_are_read_from_the_nearest_pyproject(tmp_path: Path) -> None:
    (waiver,) = read(tmp_path, TABLE)
    assert ("O2 in MySink.publish", date(2026, 6, 1)) == (waiver.cause, waiver.expiry)
    assert [waiver] == read(tmp_path, TABLE.replace("2026-06-01", '"2026-06-01"'))
    assert [] == read(tmp_path, "[project]\nname = 'x'\n")
    assert [] == read(tmp_path, "[tool.sinkproof]\n")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("reason =", "reasons =", "number 1: unknown key 'reasons' (did you mean 'reason'?). Known: subject, claim, "),
        ("[[tool.sinkproof.waivers]]", "[[tool.sinkproof.waiver]]", "[tool.sinkproof]: unknown key 'waiver' (did you"),
        (
            "[[tool.sinkproof.waivers]]",
            "[tool.sinkproof.waivers]",
            "this is no table. Write [[tool.sinkproof.waivers]]",
        ),
        ("[[tool.sinkproof.waivers]]", "[tool]\nsinkproof = 1\n[x]", "[tool.sinkproof]: this is no table"),
        ("2026-06-01", '"June"', "expiry = June is no date. Write expiry = 2026-12-31"),
        ("2026-06-01", "2026-06-01T12:00:00", "is no date"),
        ("2026-06-01", "2026-06-31", "cannot be read"),
        ('reason = "moves to a transaction in July"', "", "number 1: reason is missing or no text"),
        ('owner = "data team"', 'owner = ""', "number 1: owner is missing or no text"),
        ('owner = "data team"', "owner = 7", "number 1: owner is missing or no text"),
        ('cause = "O2 in MySink.publish"', "", "number 1: cause is missing"),
        ("NO_DUPLICATES", "NO_DUPES", "there is no claim 'NO_DUPES' (did you mean 'NO_DUPLICATES'?)"),
        ("subject =", "subject", "pyproject.toml cannot be read: "),
    ],
)
def test_what_is_written_wrongly_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(WaiverError) as refused:
        read(tmp_path, TABLE.replace(before, after))
    assert said in str(refused.value)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)
