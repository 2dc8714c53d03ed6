"""Rarer faults: right sinks are acquitted under each, and each convicts a sink that no other fault does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.simulated_campaign import SimulatedCampaign
from sinkproof.campaign.simulated_plan import RARE_FAULTS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.run_result import RunResult
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.generators.fault_sites import spread
from sinkproof.generators.feasible import impossible, of_target
from sinkproof.generators.high_yield import one_crash_in_each_job, whole_job_kills_in_other_jobs
from sinkproof.generators.rare import (
    deaths_without_notifications,
    engine_faults,
    in_job,
    many_lost_messages,
    older_states_in_other_batches,
)
from sinkproof.reports.document import Finding
from sinkproof.sink_adapters.files.file_contracts import FilesContract
from sinkproof.sink_adapters.memory.memory_contracts import MemoryContract
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

RIGHT = ("hard_sinks:Right", "hard_targets:TimesOutLoudly", "hard_targets:ChecksDeliveryErrors")
SUPPORT = Path(__file__).parents[2] / "support"
WRONG = {  # and the oracle that convicts it, and how the schedule begins or ends that does so
    "hard_sinks:OlderIsObsolete": ("O1", "=late"),
    "hard_sinks:NotifiedTwice": ("O2", "=repeat"),
    "hard_sinks:ChecksThenActs": ("O2", "=land"),
    "hard_sinks:GivesUpAfterThreeTries": ("O1", "=fail"),
    "hard_sinks:LastClosedSinkCleansUp": ("O1", "=cancel"),
    "hard_sinks:EndsWithTheLargestId": ("O1", "=drain"),
    "hard_sinks:NumbersItsFiles": ("O1", "=rewind"),
    "hard_sinks:NamedByTheClock": ("O1", "job=clock-skew"),
    "hard_sinks:OnePrefix": ("O1", "job=two-sinks"),
    "hard_targets:TimesOutSilently": ("O1", "=expire"),
    "hard_targets:JanitorRemovesStaged": ("O1", "=maintain"),
    "hard_targets:MarksFirst": ("O11", "no-fault"),
    "hard_targets:EachSubtaskPublishesAlone": ("O4", "no-fault"),
}


@contextmanager
def runner(contract: Contract, folder: Path) -> Iterator[ScheduleRunner]:
    with ScheduleRunner(contract, Scratch(name="hard", path=folder)) as made:
        yield made


def findings(
    contract: Contract, folder: Path, *, until: Callable[[Finding], bool] = lambda finding: False
) -> list[Finding]:
    """What the rarer faults find, up to the first finding of a kind."""
    results = CampaignResults(contract=contract, shell="simulated")
    with runner(contract, folder) as made:
        campaign = SimulatedCampaign(made, results, should_stop=lambda results: any(map(until, results.findings)))
        campaign.carry_out(RARE_FAULTS)
    return results.findings


def campaign_of(made: ScheduleRunner) -> SimulatedCampaign:
    """Ready for its first stage."""
    campaign = SimulatedCampaign(made, CampaignResults(contract=made.contract, shell="simulated"))
    assert campaign.prepare()
    return campaign


def named(name: str) -> Contract:
    """Anew each time: `load` remembers contracts, and what their shelves hold."""
    made: Contract = load.__wrapped__(str(SUPPORT / name.replace(":", ".py:")))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_sink_is_acquitted_under_every_rare_fault(name: str, tmp_path: Path) -> None:
    assert [] == [f"{each.oracle} {each.schedule}: {each.why}" for each in findings(named(name), tmp_path)]


def broken_claims(pair: str, tmp_path: Path) -> list[str]:
    claimed = [each for each in findings(load(pair), tmp_path) if each.claimed]
    return [f"{each.oracle} {each.schedule}: {each.why}" for each in claimed]


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["memory/two-phase", pytest.param("files/masked", marks=pytest.mark.longer)])
def test_our_own_pairs_keep_what_they_claim(pair: str, tmp_path: Path) -> None:
    assert [] == broken_claims(pair, tmp_path)


@pytest.mark.longer
@pytest.mark.parametrize(
    "pair",
    [
        "memory/masked",
        "memory/write-ahead-upsert",
        "files/two-phase",
        "files/write-ahead",
        "files/write-ahead-upsert",
        "files/idempotent",
        "files/plain",
    ],
)
def test_our_other_pairs_keep_what_they_claim(pair: str, tmp_path: Path) -> None:
    assert [] == broken_claims(pair, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sin"), WRONG.items())
def test_a_wrong_sink_is_convicted_by_the_fault_that_its_sin_needs(
    name: str, sin: tuple[str, str], tmp_path: Path
) -> None:
    oracle, word = sin
    shown = findings(named(name), tmp_path, until=lambda each: _shows(each, oracle, word))
    assert any(_shows(each, oracle, word) and each.claimed for each in shown), [
        f"{each.oracle} {each.schedule}" for each in shown
    ]


def _shows(finding: Finding, oracle: str, word: str) -> bool:
    schedule = finding.schedule
    return finding.oracle == oracle and (schedule.endswith(word) or schedule.startswith(word))


def test_an_error_of_a_background_delivery_convicts_a_sink_that_never_reads_it(tmp_path: Path) -> None:
    schedule = parse("sink[0].publish.before#2=error")
    with runner(named("hard_targets:IgnoresDeliveryErrors"), tmp_path) as made:
        assert ["O1"] == [each.oracle for each in made.run(schedule).anomalies]
    with runner(named("hard_targets:ChecksDeliveryErrors"), tmp_path) as made:
        assert ((), True) == ((run_result := made.run(schedule)).anomalies, run_result.fired)


# -- what a fault does ----------------------------------------------------------------------------


def run(name: str, schedule: str, folder: Path) -> RunResult:
    with runner(named(name), folder) as made:
        return made.run(parse(schedule))


def test_a_dropped_transaction_is_either_reported_or_lost_silently(tmp_path: Path) -> None:
    schedule = "sink[0].notify_complete.before#1=expire"
    loud = run("hard_targets:TimesOutLoudly", schedule, tmp_path)
    silent = run("hard_targets:TimesOutSilently", schedule, tmp_path)
    assert ((), False, True) == (loud.anomalies, loud.finished, "TransactionLost" in str(loud.history))
    assert (["O1"], True) == ([each.oracle for each in silent.anomalies], silent.finished)


@pytest.mark.parametrize("pair", ["memory/two-phase", "files/two-phase"])
def test_after_an_older_checkpoint_rows_come_again_and_none_is_lost(pair: str, tmp_path: Path) -> None:
    with runner(load(pair), tmp_path) as made:
        run_result = made.run(parse("checkpoint.notify#5=forget"))
    assert () == run_result.anomalies
    assert run_result.finished
    assert 24 < run_result.rows_committed


def test_a_schedule_that_this_subject_or_shell_cannot_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    right = named("hard_targets:EachSubtaskPublishesAlone")
    assert "does not offer lose_power" in impossible(parse("sink[0].write.after#1=lose-power"), right, "simulated")
    assert "does not offer expires_after" in impossible(parse("sink[0].write.after#1=expire"), right, "simulated")
    assert "does not offer second_sink" in impossible(parse("job=two-sinks no-fault"), right, "simulated")
    assert "--on simulated" in impossible(parse("sink[0].commit.before#1=land"), right, "process")
    assert "--on simulated" in impossible(parse("checkpoint.notify#1=late"), right, "spark")
    assert "--on simulated" in impossible(parse("job=rebatched no-fault"), right, "spark")
    assert "" == impossible(parse("checkpoint.notify#1=late"), right, "process")
    assert "" == impossible(parse("job=rebatched sink[0].commit.before#1=land"), right, "simulated")


def test_schedules_for_processes_are_possible_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        campaign = campaign_of(made)
        first = list(one_crash_in_each_job(campaign, kind="kill-job"))
        schedules = [*first, *whole_job_kills_in_other_jobs(campaign)]
        monkeypatch.setattr(SimulatedCampaign, "has_breakable_service", True)
        fewer = [*whole_job_kills_in_other_jobs(campaign)]
        older = {*older_states_in_other_batches(campaign.baseline)}
        assert older <= {*engine_faults(campaign)}
    assert set() < older <= {*fewer} < {*schedules}
    assert [Schedule(ids=8)] == [each for each in first if not each.faults]
    assert {"lose", "decline", "kill-job"} == {each.faults[0].kind for each in schedules if each.ids and each.faults}
    unheard = [each.ids for each in schedules if [fault.kind for fault in each.faults[-2:]] == ["lose", "kill-job"]]
    assert 3 == unheard.count(8) < unheard.count(0), "a recovery has everything to commit"
    assert {"many-checkpoints", "large-batches", "edge-case-values"} <= {each.job for each in fewer}
    assert {"edge-case-values", "equal-rows"} == {each.job for each in fewer if not each.faults}
    assert {
        "empty-batches",
        "many-keys",
        "long-keys",
        "long-values",
        "null-characters",
        "large-offsets",
        "long-idle",
    } <= {each.job for each in schedules if not each.faults}
    assert {"standard", "scale-in", "scale-out", "outage", "late-settling"} <= {each.job for each in first}
    assert {"scale-in", "scale-out", "scale-in-and-out"} == {
        each.job for each in first if ["kill-job"] * 2 == [fault.kind for fault in each.faults]
    }
    kinds = {"late", "repeat", "lose", "decline", "cancel", "drain", "rewind", "forget", "kill-job"}
    assert kinds == {each.faults[-1].kind for each in schedules if each.faults}
    assert {""} == {impossible(each, load("memory/two-phase"), "process") for each in schedules}


def test_two_declined_votes_in_a_row_end_the_attempt_where_little_is_tolerated(tmp_path: Path) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        refused = [
            each for each in in_job(campaign_of(made), "periodic-checkpoints") if each.faults[-1].kind == "decline"
        ]
        ends = [(len(each.faults), attempts(made.run(each))) for each in refused]
    assert [(1, 1), (2, 2), (2, 2), (2, 1)] == ends, "the last are two that refuse the same checkpoint"


def test_lost_notifications_are_tried_with_ids_of_one_digit_and_of_two(tmp_path: Path) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        campaign = campaign_of(made)
        tried = [*many_lost_messages(campaign), *deaths_without_notifications(campaign)]
    lost = [each for each in tried if {fault.kind for fault in each.faults} == {"lose"} and len(each.faults) > 1]
    ids = [each.ids for each in lost]
    assert 3 <= ids.count(0) == ids.count(8), "at either sink, and at both"


def attempts(run_result: RunResult) -> int:
    return sum(what == "generation" for _, _, _, what, _ in run_result.history)


def test_power_is_lost_among_processes_where_no_copy_can_lose_it() -> None:
    offers = {"claims": "NO_LOSS", "lose_power": lambda scratch: None, "expires_after": 60}
    copies = {"freeze": lambda scratch: b"", "thaw": lambda scratch, copy: None}
    assert ["expire", "lose-power"] == of_target(Contract("here.py:Uncopied", SimpleNamespace(**offers)))
    assert [] == of_target(Contract("here.py:Copied", SimpleNamespace(**offers, **copies)))


@pytest.mark.parametrize(
    ("offers", "struck"),
    [
        ({"expires_after": 60, "lose_power": lambda scratch: None}, set()),
        (
            {"expires_after": 60, "maintain": lambda scratch: None},
            {("persist.before", "persist.after"), ("generation.before", "generation.after")},
        ),
    ],
)
def test_limits_pass_before_maintenance_where_a_target_has_both(
    offers: dict[str, Any], struck: set[tuple[str, str]], tmp_path: Path
) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        campaign = campaign_of(made)
        offers["sink"] = made.contract.given.sink
        campaign.contract = Contract("here.py:Uncopied", SimpleNamespace(claims="NO_LOSS", **offers))
        several = [each.faults[-2:] for each in whole_job_kills_in_other_jobs(campaign) if each.faults[1:]]
    both = {
        (first.point.removeprefix("checkpoint."), then.point.removeprefix("checkpoint."))
        for first, then in several
        if (first.kind, then.kind) == ("expire", "maintain")
    }
    assert struck == both


def test_places_are_spread_over_a_run(tmp_path: Path) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        baseline = made.run(Schedule())
    once, thrice = list(spread(baseline, "kill", times=1)), list(spread(baseline, "kill"))
    assert (
        {fault.point for fault in once} == {fault.point for fault in thrice} == {point for _, point in baseline.trace}
    )
    assert len(once) == len({fault.point for fault in once})
    assert len(thrice) == len(set(thrice)) <= 3 * len(once)


@pytest.mark.parametrize("limit", [0, -3, "soon", True, float("inf")])
def test_a_time_limit_that_is_none_is_refused(limit: Any) -> None:
    given = SimpleNamespace(claims="NO_LOSS", expires_after=limit)
    with pytest.raises(ContractError, match="must be a number of seconds"):
        Contract("here.py:Limited", given)


# -- our own targets, as they should not be -------------------------------------------------------


class Sloppy(FilesContract):
    """Files that are not forced to disk, or only their folder is not."""

    def __init__(self, strategy: str, *leaves_out: str) -> None:
        super().__init__(strategy)
        self.leaves_out = leaves_out

    def sink(self, scratch: Any) -> Any:
        made = super().sink(scratch)
        for name in self.leaves_out:
            setattr(made.target.files, f"_{name}", lambda *_: None)
        return made


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["two-phase", "masked"])
@pytest.mark.parametrize("leaves_out", ["fsync", "fsync_directory"])
def test_rows_that_were_not_forced_to_disk_are_lost_with_the_power(
    strategy: str, leaves_out: str, tmp_path: Path
) -> None:
    contract = Contract("sloppy", Sloppy(strategy, leaves_out))
    found = findings(contract, tmp_path, until=lambda each: each.oracle == "O8")
    kinds = {each.schedule.rpartition("=")[2] for each in found if each.oracle == "O8" and each.claimed}
    assert kinds & {"lose-power", "lose-bytes", "lose-names"}
    assert {"O8"} == {each.oracle for each in found if each.claimed}


@pytest.mark.slow
def test_a_store_with_a_time_limit_is_no_reason_to_convict_two_phase_commit(tmp_path: Path) -> None:
    contract = Contract("timed", MemoryContract("two-phase", transaction_timeout=900.0))
    assert [] == [f"{each.oracle} {each.schedule}: {each.why}" for each in findings(contract, tmp_path)]
    with runner(contract, tmp_path) as made:
        run_result = made.run(parse("sink[0].commit.before#1=expire"))
    assert ("can never be committed any more" in str(run_result.history), False) == (True, run_result.finished)


def test_a_row_that_is_seen_for_a_moment_only_is_early(tmp_path: Path) -> None:
    """Only a concurrent reader reads at the right moment."""
    with runner(named("hard_targets:VisibleUntilRenamed"), tmp_path) as made:
        assert () == made.run(Schedule()).anomalies
        beside = made.run(Schedule(), concurrent_reader=True)
        assert ["O3"] == [each.oracle for each in beside.anomalies]


def test_maintenance_that_raises_is_a_contract_error(tmp_path: Path) -> None:
    with (
        runner(named("hard_targets:MaintenanceFails"), tmp_path) as made,
        pytest.raises(ContractError, match=r"maintain\(scratch\) raised KeyError: 'no such table'"),
    ):
        made.run(parse("sink[0].publish.before#1=maintain"))


def test_maintenance_comes_between_a_death_and_the_recovery_where_only_processes_die(tmp_path: Path) -> None:
    with runner(load("memory/two-phase"), tmp_path) as made:
        campaign = campaign_of(made)
        offers = {"maintain": lambda scratch: None, "sink": made.contract.given.sink}
        campaign.contract = Contract("here.py:Uncopied", SimpleNamespace(claims="NO_LOSS", **offers))
        found = {str(each) for each in whole_job_kills_in_other_jobs(campaign)}
    assert "sink[0].notify_complete.after#1=kill-job generation.before#2=maintain" in found
