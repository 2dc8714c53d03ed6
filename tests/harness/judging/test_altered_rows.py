"""Keys and values that a reader shows are compared with what was sent; what it shows instead of them is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.campaign_budget import run_campaign
from sinkproof.campaign.task import Task
from sinkproof.canaries.write_ahead import CutsRestoredValues, WholeRowsControl
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.judging.altered_rows import doubtful_column, fields_shown, why_not_compared
from sinkproof.judging.fault_allowances import still_promised
from sinkproof.judging.oracle import Anomaly, Observation, judge
from sinkproof.reports.document import Finding
from sinkproof.reports.progress import SILENT
from sinkproof.sink_adapters.protocol import Context, Row
from sinkproof.subject.claims import Claim, Grade
from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.ledger import Ledger
from sinkproof.workload.rows import EDGE_CASE_INPUT, STANDARD_INPUT

LEDGER = Ledger(STANDARD_INPUT)
SENT = [LEDGER.rows[identity] for identity in LEDGER.expected]
SCHEDULES_MOST = 60
RESTARTED = parse("checkpoint.persist.after#1=kill-job")


def judged(given: Sequence[Any], **options: Any) -> list[Anomaly]:
    """`given`: rows by a reader."""
    observed = Observation(committed=[(row[0], row[1]) for row in given], rows=list(given))
    return list(judge(LEDGER, observed, **options))


def altered(number: int, **fields: Any) -> list[Row]:
    """What was sent, with another field in one row."""
    return [row._replace(**fields) if at == number else row for at, row in enumerate(SENT)]


def test_rows_as_they_were_sent_are_right_in_each_form_that_shows_them() -> None:
    assert [] == judged(SENT)
    assert [] == judged([list(row[:4]) for row in SENT])
    assert [] == judged([(row.split, row.offset, row.key.encode(), bytearray(row.value.encode())) for row in SENT])
    assert [] == judged([Row(*row[:4]) for row in SENT]), "an event time that is left out is not compared"


@pytest.mark.parametrize("fields", [{"key": "k"}, {"value": "v0."}, {"event_time_ms": 7}, {"value": None}])
def test_another_field_is_an_altered_row(fields: dict[str, Any]) -> None:
    (anomaly,) = judged(altered(5, **fields))
    assert "O12" == anomaly.oracle
    assert f"1 rows altered: (0, 5) {next(iter(fields))}" in anomaly.why


def test_the_anomaly_names_the_sent_and_the_read_value_and_the_row_that_it_belongs_to() -> None:
    (anomaly,) = judged(altered(5, value="v1.3"))
    assert "1 rows altered: (0, 5) value 'v0.5' is read as 'v1.3', which is that of (1, 3)" == anomaly.why


def test_a_text_in_another_encoding_and_a_row_that_was_cut_off_are_altered() -> None:
    texts = [(row.split, row.offset, row.key, row.value) for row in SENT]
    last = texts[-1]
    assert ["O12"] == [each.oracle for each in judged([*texts[:-1], (*last[:3], last[3].encode("utf-16"))])]
    (cut_off,) = judged([*texts[:-1], last[:3]])
    assert "value 'v1.11' is read as nothing" in cut_off.why


def test_a_lost_row_and_an_altered_one_are_two_anomalies() -> None:
    assert ["O1", "O12"] == [anomaly.oracle for anomaly in judged(altered(5, value="")[:-1])]


def test_only_the_last_row_of_each_key_is_compared_where_keys_are_upserted() -> None:
    last = [LEDGER.rows[identity] for identity in LEDGER.last_per_key()]
    assert [] == judged(last, rows="upsert")
    assert ["O12"] == [each.oracle for each in judged([*last[1:], last[0]._replace(value="")], rows="upsert")]


@pytest.mark.parametrize(
    "other",
    [
        lambda row: (),
        lambda row: (3,),
        lambda row: ("sink-0", 3),
        lambda row: (None, None, None),
        lambda row: ("", "", 0),
        lambda row: (row.value.upper(), f"<{row.key}>"),
        lambda row: (f"part-{row.offset}", row.offset % 3, row.offset, "more"),
    ],
)
def test_columns_that_never_show_what_was_sent_are_something_else(other: Callable[[Row], tuple[Any, ...]]) -> None:
    rows = [(row.split, row.offset, *other(row)) for row in SENT]
    assert [] == judged(rows)
    assert {} == fields_shown(LEDGER, LEDGER.expected, rows)
    assert why_not_compared(rows, {}, committed=len(rows)).startswith("keys and values were not compared: ")
    assert "keys and values were not compared: no row was committed" == why_not_compared([], {}, committed=0)


@pytest.mark.parametrize("field", ["key", "value"])
def test_a_row_with_the_field_of_another_row_is_altered_even_if_each_is(field: str) -> None:
    texts = [getattr(row, field) for row in SENT]
    moved = list(dict.fromkeys(texts))
    following = dict(zip(moved, [*moved[1:], moved[0]], strict=True))
    rows = [row._replace(**{field: following[getattr(row, field)]}) for row in SENT]
    assert ["O12"] == [each.oracle for each in judged(rows)]


@pytest.mark.parametrize(("field", "other"), [("key", "value"), ("value", "key")])
def test_a_text_in_the_place_of_a_field_that_never_is_it_is_doubtful(field: str, other: str) -> None:
    rows = [row._replace(**{field: f"{getattr(row, field)}!"}) for row in SENT]
    fields = fields_shown(LEDGER, LEDGER.expected, rows)
    doubt = doubtful_column(LEDGER, LEDGER.expected, rows, fields=fields)
    assert f"committed() gives each {other} as it was sent, and where the {field} belongs a text" in doubt
    numbers: list[Any] = [row._replace(**{field: at}) for at, row in enumerate(SENT)]
    fields = fields_shown(LEDGER, LEDGER.expected, numbers)
    assert "" == doubtful_column(LEDGER, LEDGER.expected, numbers, fields=fields)


def test_a_constant_column_shows_nothing_although_a_row_was_sent_with_that_text() -> None:
    ledger = Ledger(EDGE_CASE_INPUT)
    rows = [(*identity, "name", "null") for identity in ledger.expected]
    assert {} == fields_shown(ledger, ledger.expected, rows)


@pytest.mark.parametrize(("field", "other"), [("value", "key"), ("key", "value")])
def test_the_third_of_three_columns_may_be_the_key_or_the_value(field: str, other: str) -> None:
    rows = [(row.split, row.offset, getattr(row, field)) for row in SENT]
    assert {field: 2} == fields_shown(LEDGER, LEDGER.expected, rows)
    assert f"{other}s were not compared" in why_not_compared(rows, {field: 2}, committed=len(rows))
    assert ["O12"] == [each.oracle for each in judged([*rows[1:], (0, 0, "v")])]


def test_a_run_with_every_value_altered_is_convicted_once_a_run_without_faults_has_shown_them() -> None:
    fields = fields_shown(LEDGER, LEDGER.expected, SENT)
    assert ["O12"] == [each.oracle for each in judged([row._replace(value="?") for row in SENT], fields=fields)]


def test_no_fault_excuses_an_altered_row_but_a_power_loss_has_a_claim_of_its_own() -> None:
    found = (Anomaly(oracle="O12", why="1 rows altered"),)
    for kind in ("kill", "rewind", "forget", "expire", "drain"):
        seen = Observation(kinds=[kind], finished=False)
        assert found == still_promised(found, seen, claims=Claim.EXACTLY_ONCE)
    (after,) = still_promised(found, Observation(kinds=["lose-bytes"]), claims=Claim.EXACTLY_ONCE)
    assert "O8" == after.oracle


# -- a sink of a user -------------------------------------------------------------------------------


class ReadsIdentities(CutsRestoredValues):
    def committed(self, scratch: Scratch) -> Any:
        return ((row[0], row[1]) for row in super().committed(scratch))


class ReadsRowsAtTheEnd(ReadsIdentities):
    committed_rows = CutsRestoredValues.committed


class ReadsSomethingElse(WholeRowsControl):
    def committed(self, scratch: Scratch) -> Any:
        return ((*row[:2], "out", 7) for row in super().committed(scratch))


@pytest.mark.parametrize(
    ("contract", "expected", "why"),
    [
        (WholeRowsControl, [], ""),
        (CutsRestoredValues, ["O12"], ""),
        (ReadsRowsAtTheEnd, ["O12"], ""),
        (
            ReadsIdentities,
            [],
            "gives (split, offset) only. Let committed(), or a reader command, give (split, offset, key, value)",
        ),
        (ReadsSomethingElse, [], "no row that committed() gives has there the key or value that was sent"),
    ],
)
def test_a_sink_that_cuts_restored_values_is_convicted_if_its_reader_shows_them(
    contract: type, expected: list[str], why: str, tmp_path: Path
) -> None:
    with ScheduleRunner(Contract("tests", contract()), Scratch(name="tests", path=tmp_path)) as runner:
        assert () == runner.run(Schedule()).anomalies
        assert expected == [anomaly.oracle for anomaly in runner.run(RESTARTED).anomalies]
        assert why in runner.not_compared
        assert bool(why) is bool(runner.not_compared)


class AltersEveryRowAfterARestart(WholeRowsControl):
    class make(WholeRowsControl.make):  # noqa: N801
        def open(self, context: Context) -> None:
            super().open(context)
            for file in (self.folder / "out").iterdir() if context.restored else ():
                file.write_text(file.read_text().replace('"v', '"w'))

        def line(self, row: Any) -> str:
            text = super().line(row)
            return text.replace('"v', '"w') if self.context.restored else text


def test_a_single_run_that_alters_every_row_is_convicted(tmp_path: Path) -> None:
    contract = Contract("tests", AltersEveryRowAfterARestart())
    with ScheduleRunner(contract, Scratch(name="tests", path=tmp_path)) as runner:
        assert () == runner.run(RESTARTED).anomalies
        (anomaly,) = runner.run_alone(RESTARTED).anomalies
        assert "O12" == anomaly.oracle
        assert anomaly.why.startswith("24 rows altered")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contract", "verdict", "why"),
    [
        (CutsRestoredValues, "violated", ""),
        (ReadsIdentities, None, "gives (split, offset) only"),
    ],
)
def test_a_campaign_convicts_it_or_tells_the_certificate_that_rows_were_not_compared(
    contract: type, verdict: str | None, why: str, tmp_path: Path
) -> None:
    checked, asked = Contract(f"{__file__}:{contract.__name__}", contract()), count(1)
    outcome = run_campaign(
        *(checked, Task(locator=checked.locator, shell="simulated", budget_seconds=0)),
        folder=tmp_path,
        progress=SILENT,
        should_stop=lambda results: next(asked) > SCHEDULES_MOST,
    )
    subject = SubjectProgress(checked, [outcome.result], [*outcome.findings], ["cut short"])
    subject.add_comparison(outcome)
    result = judge_subject(subject)
    assert verdict == next((each.verdict for each in result.claims if each.claim == "INTACT_ROWS"), None)
    assert why in result.not_compared
    assert bool(why) is bool(result.not_compared)


# -- the claim --------------------------------------------------------------------------------------


def subject_of(claims: Claim, *, not_compared: str) -> SubjectProgress:
    subject = SubjectProgress(Contract("tests", SimpleNamespace(claims=claims)))
    subject.not_compared = not_compared
    return subject


def test_no_loss_claims_intact_rows_where_the_reader_shows_them() -> None:
    def judged_claims(claims: Claim, not_compared: str) -> list[str]:
        return [each.claim for each in judge_subject(subject_of(claims, not_compared=not_compared)).claims]

    assert ["NO_LOSS", "INTACT_ROWS"] == judged_claims(Claim.NO_LOSS, "")
    assert ["NO_LOSS"] == judged_claims(Claim.NO_LOSS, "only pairs")
    assert ["LIVENESS"] == judged_claims(Claim.LIVENESS, "")


def test_an_altered_row_violates_even_if_only_the_key_is_shown() -> None:
    subject = subject_of(Claim.EXACTLY_ONCE, not_compared="values were not compared")
    subject.findings = [
        Finding(oracle="O12", claimed=True, shell="simulated", schedule="no-fault", why="altered", replay="")
    ]
    result = judge_subject(subject)
    assert ("violated", "broken") == (result.verdict, result.grade)


def test_intact_rows_that_are_claimed_and_not_shown_are_unknown_with_the_reason() -> None:
    result = judge_subject(subject_of(Claim.NO_LOSS | Claim.INTACT_ROWS, not_compared="only pairs"))
    assert ("INTACT_ROWS", "unknown", "only pairs") == (
        result.claims[-1].claim,
        result.claims[-1].verdict,
        result.claims[-1].why,
    )
    assert "only pairs" == result.not_compared


def test_a_sink_that_alters_rows_has_the_grade_broken() -> None:
    assert Grade.BROKEN is Grade.of({"O12"})
