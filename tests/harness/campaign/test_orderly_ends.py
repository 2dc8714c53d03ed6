"""SIGTERM: a sink ends in its own way, and what it does then is judged as is what a death leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import KILLS_AND_MESSAGES, ORDERLY_ENDS
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need, Plan
from sinkproof.canaries.two_phase import ExitsWhenAskedToEnd
from sinkproof.chaos.schedule import Fault, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.execution.run_result import RunResult
from sinkproof.generators.feasible import impossible
from sinkproof.subject.command_contract import locator
from sinkproof.subject.loading import load
from sinkproof.subject.loading import locator_of as of_canaries
from sinkproof.subject.scratch import Scratch, scratch_folder

from ...support.zoo_campaigns import ZOO, locator_of

UNUSUAL = Path(__file__).parents[2] / "support/sinks_asked_to_end.py"
IN_A_THREAD = "sink[0].file.rename#1=terminate"
BETWEEN_CALLS = "sink[0].acknowledge.after#2=terminate"
SLOWLY = "sink[1].write.after#1=terminate-later"
READER = """sh -c 'cat "$SINKPROOF_SCRATCH"/out-* 2>/dev/null || true'"""


@contextmanager
def runner_of(locator: str) -> Iterator[ProcessRunner]:
    with scratch_folder() as folder:
        scratch = Scratch(name="asked", path=folder, shell="process")
        with process_runner(load(locator), scratch) as runner:
            yield runner


def campaign(locator: str, plan: Plan, *, of_each: int | None = None) -> CampaignResults:
    """Until the first finding that breaks a claim. `of_each`: so many schedules of each stage."""
    with runner_of(locator) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        run_all: Any = lambda schedules, trace_lines, run: map(run, islice(schedules, of_each))  # noqa: E731
        should_stop: Any = lambda results: results.breaks_a_claim  # noqa: E731
        ProcessCampaign(runner, results, should_stop=should_stop, run_all=run_all).carry_out(plan)
    return results


def ended(locator: str, *schedules: str) -> tuple[list[RunResult], str]:
    """Runs in which every row is delivered once; and what the last one has left in the file `said`."""
    with runner_of(locator) as runner:
        results = [runner.run(parse(schedule)) for schedule in schedules]
        said = runner.scratch.path / "said"
        text = said.read_text() if said.exists() else ""
    for each in results:
        assert (True, True, (), 24) == (each.fired, each.finished, each.anomalies, each.rows_committed), each.schedule
    return results, text


@pytest.mark.slow
def test_what_a_handler_publishes_is_found_by_no_death() -> None:
    member = locator_of("asked_to_end:AllIsCompleteInTheEnd")
    assert [] == campaign(member, KILLS_AND_MESSAGES[:1]).findings
    finding = campaign(member, ORDERLY_ENDS).findings[0]
    assert finding.claimed
    assert finding.schedule.endswith("=terminate")
    assert finding.line is None  # between two calls


@pytest.mark.slow
def test_a_sink_without_a_handler_gets_no_sigterm() -> None:
    (stage,) = campaign(locator_of("renamed_files:LinkedFilesUncopied"), ORDERLY_ENDS).coverage.stages
    assert (Need.HANDLES_SIGTERM.value, 0) == (stage.skipped, stage.run)


@pytest.mark.slow
@pytest.mark.parametrize("member", ["NotesTheEnd", "RaisesWhenAsked", ExitsWhenAskedToEnd])
def test_a_handler_that_notes_the_request_or_raises_or_exits_is_right(member: Any) -> None:
    locator = locator_of(f"asked_to_end:{member}") if isinstance(member, str) else of_canaries(member)
    results = campaign(locator, ORDERLY_ENDS, of_each=12)
    assert [] == results.findings + results.unknowns
    (stage,) = results.coverage.stages
    assert stage.run > 12
    assert stage.planned > 60
    assert not results.coverage.struck["write.before"]  # an orderly end is no death at that step


def line(file: str, text: str) -> str:
    """The last such line, as a point."""
    lines = (ZOO / file).read_text().splitlines()
    return f"line({file}:{max(number for number, each in enumerate(lines, 1) if each.strip() == text)})"


@pytest.mark.slow
def test_a_handler_is_struck_where_it_is() -> None:
    with runner_of(locator_of("asked_to_end:PublishesWhatIsPending")) as runner:
        within = runner.run(parse("sink[0].acknowledge.after#1=terminate sink[0].file.unlink#1=kill"))
        staged, published = line("renamed_files.py", "self.rows = []"), line("asked_to_end.py", "self.publish(name)")
        at_line = runner.run(parse(f"sink[0].{staged}#1=terminate sink[0].{published}#1=kill"))
    assert (True, 1) == (within.fired, within.kills)
    assert within.struck_line is not None
    assert "(self.staged / name).unlink(missing_ok=True)" == within.struck_line.text
    assert (True, 1) == (at_line.fired, at_line.kills)


@pytest.mark.slow
def test_finally_threads_and_functions_for_the_end_run_before_the_process_is_dead() -> None:
    (in_a_thread, *_), said = ended(f"{UNUSUAL}:Traced", IN_A_THREAD)
    assert ["finally", "unwound"] == said.splitlines()
    assert 1 == in_a_thread.kills
    _, said = ended(f"{UNUSUAL}:WorkingOn", BETWEEN_CALLS)
    assert {"finally", "the thread has done its work"} == {*said.splitlines()}


@pytest.mark.slow
@pytest.mark.parametrize("member", ["Deaf", "WaitingForEver"])
def test_an_attempt_that_does_not_end_is_killed(member: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkproof.reference_engine.shells.process.attempt_host.ENDING_SECONDS", 0.1)
    results, _ = ended(f"{UNUSUAL}:{member}", BETWEEN_CALLS, SLOWLY)
    assert [1, 1] == [each.kills for each in results]


def test_other_shells_and_other_actors_refuse_it() -> None:
    contract = load("memory/two-phase")
    on_a_process = parse(BETWEEN_CALLS)
    assert "" == impossible(on_a_process, contract, "process")
    for shell in ("simulated", "spark"):
        assert "Replay it with --on process" in impossible(on_a_process, contract, shell)
    for fault in ("checkpoint.notify#1", "source[0].acknowledge.before#1", "sink[0].syscall(rename a)#1"):
        assert impossible(parse(f"{fault}=terminate"), contract, "process")
    assert "" == impossible(parse("sink[0].open.after#1=terminate-later"), contract, "process")
    assert Fault("sink[0]", "acknowledge.after", 2, "terminate") == on_a_process.faults[0]


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls")
def test_a_command_is_asked_to_end_between_its_requests() -> None:
    later, at_once, within = (
        "sink[0].write.after#2=terminate-later",
        "sink[0].snapshot.after#1=terminate",
        "sink[0].snapshot.after#1=terminate sink[0].syscall(rename out-*-*)#1=kill",
    )
    found = {mode: of_command(mode, "no-fault", at_once, later, within) for mode in ("calm", "hurried")}
    assert [set(), set(), set(), set()] == [oracles(result) for result in found["calm"]]
    assert {"O2", "O3"} == oracles(found["hurried"][1])
    for alone, *ends in found.values():
        assert alone.handles_sigterm
        assert [(True, True), (True, True), (True, True)] == [(each.fired, each.finished) for each in ends]
    (alone, killed) = of_command("right", "no-fault", at_once)
    assert not alone.handles_sigterm
    assert set() == oracles(killed)


def of_command(mode: str, *schedules: str) -> list[RunResult]:
    command = locator(f"perl {UNUSUAL.parent / 'commands/sink.pl'} {mode}", READER, "EXACTLY_ONCE")
    with runner_of(command) as runner:
        return [runner.run(parse(schedule)) for schedule in schedules]


def oracles(result: RunResult) -> set[str]:
    return {anomaly.oracle for anomaly in result.anomalies}
