"""The rules of coordinators: one that keeps them passes; a broken rule is named, with the event that broke it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.schedule_runner import COORDINATOR_CHECKED_EVERY, ScheduleRunner
from sinkproof.judging.coordinator_rules import OVER, RULES, broken_rule
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import CheckpointConfiguration, Cleanup
from sinkproof.reference_engine.checkpointing.coordinator import Coordinator, CoordinatorStep, CoordinatorTerm
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.jobs import EVERY_JOB

Effects = list[tuple[Any, ...]]
SLOW_TO_SETTLE = f"{Path(__file__).parents[2]}/mutants/subjects.py:TwoPhaseStubborn"
RESTARTED = "checkpoint.persist.after#1=kill-job"


@pytest.fixture
def runner(request: Any, tmp_path: Path) -> Iterator[ScheduleRunner]:
    name = getattr(request, "param", "memory/two-phase")
    with ScheduleRunner(load(name), Scratch(name="checked", path=tmp_path)) as made:
        yield made


MUCH_DATA = (
    "large-batches",
    "large-values",
    "many-chunks",
    "far-larger-data",
    "one-large-checkpoint",
)  # in checkpoints as usual


def terms_of(runner: ScheduleRunner, schedule: str) -> tuple[list[CoordinatorTerm], CheckpointConfiguration]:
    runner.reset()
    simulation, _ = runner.simulation(parse(schedule))
    runner.play(simulation)
    return simulation.terms, simulation.job.configuration


@pytest.mark.parametrize("job", [job for job in EVERY_JOB if job not in ("two-sinks", *MUCH_DATA)])
@pytest.mark.parametrize(
    "faults",
    [
        *("no-fault", "sink[0].commit.before#1=kill-job", "sink[1].acknowledge.before#2=decline"),
        *("checkpoint.notify#2=cancel", "checkpoint.notify#2=drain", "checkpoint.notify#3=lose"),
    ],
)
def test_our_own_coordinator_keeps_its_rules(runner: ScheduleRunner, job: str, faults: str) -> None:
    terms, configuration = terms_of(runner, f"job={job} {faults}")
    assert sum(len(term.steps) for term in terms) > 20
    assert "" == broken_rule(terms, configuration)


@pytest.mark.parametrize("runner", [SLOW_TO_SETTLE], indirect=True)
def test_our_own_coordinator_keeps_its_rules_when_checkpoints_are_in_doubt_for_too_long(runner: ScheduleRunner) -> None:
    terms, configuration = terms_of(runner, RESTARTED)
    events = [event[0] for term in terms for _, event, _ in term.steps]
    assert {"unsettled_sink", "settle_deadline", "closing"} <= {*events}
    assert "" == broken_rule(terms, configuration)


# -- every rule, broken ----------------------------------------------------------------------------


def without(kind: str, *, word: str = "") -> Callable[[Effects], Effects]:
    """One effect of this kind is missing."""

    def change(effects: Effects) -> Effects:
        found = [each for each in effects if each[0] == kind and word in ("", *each)]
        return [each for each in effects if each is not found[0]] if found else effects

    return change


def with_one_more(*effect: Any) -> Callable[[Effects], Effects]:
    return lambda effects: [*effects, effect]


def renumbered(effects: Effects) -> Effects:
    return [(*each[:3], each[3] + 1, each[4]) if each[2:3] == ("trigger",) else each for each in effects]


TWO_DECLINED = "job=periodic-checkpoints sink[0].acknowledge.before#1=decline sink[0].acknowledge.before#2=decline"
BROKEN = [
    ("has room", "no-fault", "cut", renumbered),
    ("has room", "no-fault", "durable", with_one_more("send", 1, "trigger", 9, None)),
    ("has room", "job=periodic-checkpoints no-fault", "tick", without("timer", word="retrigger")),
    ("at every source", "no-fault", "cut", without("send")),
    ("at every source", "no-fault", "cut", without("timer", word="expired")),
    ("the next tick", "job=periodic-checkpoints no-fault", "tick", without("timer", word="tick")),
    ("when all subtasks have voted", "no-fault", "acknowledged", without("persist")),
    ("abort notifications", "no-fault", "durable", without("send", word="complete")),
    ("abort notifications", "sink[0].acknowledge.before#1=decline", "declined", without("send", word="aborted")),
    ("abort notifications", "sink[0].acknowledge.before#1=decline", "declined", without("discard")),
    ("an attempt fails", "no-fault", "durable", with_one_more("restart", 1)),
    ("an attempt fails", "sink[0].commit.before#1=kill", "failed", without("restart")),
    ("an attempt fails", TWO_DECLINED, "declined", without("restart")),
    ("newly in doubt", "no-fault", "durable", with_one_more("timer", 1000, "settle_deadline", 3)),
    ("the last checkpoint", "no-fault", "durable", without("timer", word="closing")),
    ("every sink is closed", "no-fault", "closed_sink", without("finish")),
    ("a cancelled job", "checkpoint.notify#2=cancel", "cancel", with_one_more("discard", 0)),
    (OVER, "sink[0].commit.before#1=kill", "acknowledged", with_one_more("restart", 1)),
]


@pytest.mark.parametrize(("rule", "schedule", "kind", "change"), BROKEN)
def test_a_broken_rule_is_named_with_the_event_that_broke_it(
    runner: ScheduleRunner, rule: str, schedule: str, kind: str, change: Callable[[Effects], Effects]
) -> None:
    terms, configuration = terms_of(runner, schedule)
    changed = [
        (term, place, CoordinatorStep(now, event, change(effects)))
        for term in terms
        for place, (now, event, effects) in enumerate(term.steps)
        if event[0] == kind and change(effects) != effects
    ]
    said = {broken_rule([with_step(*each)], configuration) for each in changed}
    assert any(rule in each and repr(kind) in each for each in said), said
    assert "" not in said


def with_step(term: CoordinatorTerm, place: int, step: CoordinatorStep) -> CoordinatorTerm:
    return term._replace(steps=[*term.steps[:place], step, *term.steps[place + 1 :]])


def test_every_rule_is_broken_by_one_of_these_changes() -> None:
    assert [] == [rule for rule in (*RULES, OVER) if not any(words in rule for words, *_ in BROKEN)]


def test_a_cancelled_job_with_delete_on_cancellation_must_delete_its_checkpoints(runner: ScheduleRunner) -> None:
    terms, configuration = terms_of(runner, "checkpoint.notify#2=cancel")
    deleting = replace(configuration, externalized_checkpoint_cleanup=Cleanup.DELETE_ON_CANCELLATION)
    assert "a cancelled job" in broken_rule(terms, deleting)


# -- the certificate -------------------------------------------------------------------------------


class SkipsANumber(Coordinator):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.checkpoint_id_next += 1


def test_a_sink_under_a_coordinator_that_breaks_a_rule_is_unknown(
    runner: ScheduleRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkproof.reference_engine.shells.simulated.simulation.Coordinator", SkipsANumber)
    results = CampaignResults(contract=runner.contract, shell="simulated")
    for _ in range(2):
        results.add(runner.run(Schedule()))
    (why,) = results.unknowns
    assert "has broken a rule of its own" in why
    assert "its number is the next" in why
    assert "sinkproof replay no-fault memory/two-phase --on simulated" in why


def test_one_run_in_ten_is_checked_and_each_in_which_the_coordinator_must_act_on_a_fault(
    runner: ScheduleRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def check(terms: list[CoordinatorTerm], configuration: CheckpointConfiguration) -> tuple[str, int]:
        checked.append(len(terms))
        return "", 0

    def those_checked(schedules: list[str]) -> list[str]:
        """Whatever ran before them: a worker process checks those that this one would."""
        return [text for text in schedules if (checked.clear(), runner.run(parse(text))) and checked]

    monkeypatch.setattr("sinkproof.execution.schedule_runner.checked", check)
    seeds = [f"seed={seed} sink[0].commit.before#1=kill" for seed in range(1, 10 * COORDINATOR_CHECKED_EVERY)]
    some = those_checked(seeds)
    assert 4 < len(some) < 2 * COORDINATOR_CHECKED_EVERY
    assert some[::-1] == those_checked(seeds[::-1])
    always = ["no-fault", "sink[0].acknowledge.before#1=decline"]
    assert always == those_checked(always)
