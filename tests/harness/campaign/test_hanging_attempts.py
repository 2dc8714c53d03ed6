"""An attempt that hangs is replaced, and killed before it goes on: what it held, or was to do, is never finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Stage
from sinkproof.chaos.faults import KINDS
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.generators.requests_sent import further_requests
from sinkproof.generators.zombies_and_deaths import COMMIT, zombies_waited_for
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.workload.jobs import named_job

SUBJECTS = Path(__file__).parents[2] / "support/disturbed_commits.py"
RESERVED = Path(__file__).parents[2] / "support/reserved_names.py"
TABLES = Path(__file__).parents[2] / "zoo/sqlite_tables.py"
STAGE = "attempts that hang, and are killed after their replacement"
LINE = next(at for at, text in enumerate(SUBJECTS.read_text().splitlines(), 1) if "temporary.rename(part)" in text)
FORCED = next(at for at, text in enumerate(SUBJECTS.read_text().splitlines(), 1) if "self.replace(json" in text)
LONGER = "zombies for which other attempts wait longer"
WITH_THE_LOCK = f"sink[0].line({SUBJECTS.name}:{LINE})#1"


@contextmanager
def runner_of(name: str, *, subjects: Path = SUBJECTS) -> Iterator[ProcessRunner]:
    with (
        scratch_folder() as folder,
        process_runner(load(f"{subjects}:{name}"), Scratch(name="hangs", path=folder, shell="process")) as runner,
    ):
        yield runner


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [("SkipsWhatIsLocked", {"O1"}), pytest.param("MarkedAndRenamed", set(), marks=pytest.mark.longer)],
)
def test_what_is_left_to_an_attempt_that_hangs_is_lost(name: str, found: set[str]) -> None:
    with runner_of(name) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
    assert found == {finding.oracle for finding in results.findings}
    assert {"hang"} == {finding.schedule.rpartition("=")[2] for finding in results.findings} or not found
    assert results.coverage.kills == results.coverage.stages[0].run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"), [("TakesBusyForDone", {"O1"}), pytest.param("AsksAgain", set(), marks=pytest.mark.longer)]
)
def test_attempts_hang_between_two_requests_of_one_line(name: str, found: set[str]) -> None:
    """Where they hang before the first one, their successors make both."""
    with runner_of(name, subjects=RESERVED) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        ProcessCampaign(runner, results).carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        further = [str(each) for each in further_requests(runner.run(Schedule(), trace_lines=True), COMMIT, "hang")]
    assert ["sink[0].socket.send#4=hang"] == further  # the first one opens the connection, by a line in between
    claimed = {finding.schedule: finding.oracle for finding in results.findings if finding.claimed}
    assert found == {*claimed.values()}
    assert {*claimed} == ({*further} if found else set())


@pytest.mark.slow
def test_a_zombie_at_the_same_place_goes_on_and_finishes_it() -> None:
    with runner_of("SkipsWhatIsLocked") as runner:
        zombie, hanging = (runner.run(parse(f"{WITH_THE_LOCK}={kind}")) for kind in ("stop", "hang"))
    assert (True, ()) == (zombie.fired, zombie.anomalies)
    assert ["O1"] == [anomaly.oracle for anomaly in hanging.anomalies]
    assert (0, 1) == (zombie.kills, hanging.kills)


@pytest.mark.slow
def test_an_attempt_that_waits_for_its_lock_gets_it_when_the_hanging_one_is_killed() -> None:
    with runner_of("WaitsForTheLock") as runner:
        result = runner.run(parse(f"{WITH_THE_LOCK}=hang"))
        left = list(runner.scratch.path.glob("temporary-*"))
    assert (True, True, (), 1) == (result.fired, result.finished, result.anomalies, result.kills)
    assert 1 == len(left), "it has not gone on"


@pytest.mark.slow
@pytest.mark.parametrize("at", [WITH_THE_LOCK, "sink[0].snapshot.after#1", "sink[0].write.before#2"])
def test_a_zombie_that_holds_a_lock_for_life_is_killed_for_its_successor(at: str) -> None:
    with runner_of("OwnedForLife") as runner:
        result = runner.run(parse(f"{at}=stop"))
    assert (True, True, (), 1) == (result.fired, result.finished, result.anomalies, result.kills)


def test_only_processes_hang() -> None:
    schedule = parse(f"{WITH_THE_LOCK}=hang", kinds=frozenset(KINDS))
    contract = load(f"{SUBJECTS}:WaitsForTheLock")
    assert "" == impossible(schedule, contract, "process")
    assert impossible(schedule, contract, "simulated")
    assert impossible(schedule, contract, "spark")


def test_only_processes_wait_longer() -> None:
    schedule, contract = parse("job=long-waits no-fault"), load(f"{SUBJECTS}:WaitsForTheLock")
    assert "" == impossible(schedule, contract, "process")
    assert impossible(schedule, contract, "simulated")
    assert impossible(schedule, contract, "spark")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("TakenByForce", {"O1", "O9"}),
        ("WaitsForTheLock", set()),
        ("GoesOnAfterAMinute", {"O1", "O9"}),
        pytest.param("FailsAfterAMinute", set(), marks=pytest.mark.longer),
    ],
)
def test_some_zombies_are_waited_for_until_their_lock_is_taken_by_force(name: str, found: set[str]) -> None:
    with runner_of(name) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        line = f"sink[0].line({SUBJECTS.name}:{LINE if name == 'WaitsForTheLock' else FORCED})#1=stop"
        early = Stage(name="resumed early", schedules=lambda campaign: [parse(line)])
        longer = [stage for stage in PROCESS_PLAN if stage.name == LONGER]
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([early, *longer])
    assert parse(line) in campaign.shown.waited_for
    assert found == {finding.oracle for finding in results.findings}
    assert {f"job=long-waits {line}"} == {finding.schedule for finding in results.findings} or not found


@pytest.mark.slow
def test_a_suspended_attempt_resumes_before_others_have_waited_for_five_seconds(tmp_path: Path) -> None:
    """SQLite raises an error then: what little a waiting attempt does is not counted as work."""
    line = next(at for at, text in enumerate(TABLES.read_text().splitlines(), 1) if "if not is_done(" in text)
    scratch = Scratch(name="locked", path=tmp_path, shell="process")
    with process_runner(load(f"{TABLES}:RowsAndMarker"), scratch) as runner:
        runner.run(parse("no-fault"))
        result = runner.run(parse(f"job=long-waits sink[0].line({TABLES.name}:{line})#1=stop"))
    assert (True, True, True, 1) == (result.fired, result.finished, result.resumed_early, result.restarts)
    assert "raised" not in [each[3] for each in result.history]


@pytest.mark.slow
def test_a_sink_may_give_up_loudly_where_its_sleep_is_short() -> None:
    with runner_of("FailsAfterThreeSeconds") as runner:
        usual, short = (runner.run(parse(f"{job} no-fault".strip())) for job in ("", "job=long-waits"))
    assert (True, ()) == (usual.finished, usual.anomalies)
    assert (False, (), 1) == (short.finished, short.anomalies, short.restarts)
    assert "after three seconds" in short.failure


def test_of_many_zombies_that_were_waited_for_six_are_tried_again_each_once_and_three_where_that_takes_long() -> None:
    waited = [
        parse(f"{job}sink[0].line(a.py:{number})#1=stop") for job in ("", "job=slow-detection ") for number in range(9)
    ]
    again = list(map(str, zombies_waited_for(waited, wait_seconds=3.0)))
    places = [f"job=long-waits sink[0].line(a.py:{number})#1" for number in (0, 1, 3, 4, 6, 8)]
    assert [*(f"{place}=stop" for place in places), f"{places[0]}=hang", f"{places[-1]}=hang"] == again
    assert 3 + 2 == len(list(zombies_waited_for(waited, wait_seconds=9.0)))
    longest = [each.faults[0].kind for each in zombies_waited_for(waited, wait_seconds=31.0)]
    assert ["stop"] * 4 + ["hang"] == longest
    assert [] == list(zombies_waited_for([], wait_seconds=3.0))
    alone = list(map(str, zombies_waited_for(waited[:1], wait_seconds=3.0)))
    assert [f"{places[0]}=stop", f"{places[0]}=hang"] == alone


@pytest.mark.slow
def test_a_run_waits_for_longer_than_the_code_does(tmp_path: Path) -> None:
    file = tmp_path / "patient.py"
    file.write_text(
        "from sinkproof import Claim\n"
        "class Sink:\n"
        "    def open(self, context): self.lock_seconds = 10\n"
        "    def write(self, batch): ...\n"
        "    def snapshot(self, checkpoint_id): return b''\n"
        "    def notify_complete(self, checkpoint_id): ...\n"
        "class Of:\n"
        "    claims = Claim.NO_DUPLICATES\n"
        "    def sink(self, scratch): return Sink()\n"
        "    def committed(self, scratch): return []\n"
    )
    scratch = Scratch(name="waits", path=tmp_path, shell="process")
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        usual, patient = (runner.new_host(named_job(name)) for name in ("standard", "long-waits"))
        assert usual.patience_seconds < 3.0
        assert 11.0 == patient.patience_seconds < patient.hang_seconds


@pytest.mark.parametrize(
    ("slowest", "hung_after", "patience"), [(0.1, 10.0, 0.4), (4.0, 24.0, 10.0), (50.0, 60.0, 10.0)]
)
def test_a_call_counts_as_hung_when_it_takes_far_longer_than_any_without_faults(
    slowest: float, hung_after: float, patience: float, tmp_path: Path
) -> None:
    scratch = Scratch(name="slow", path=tmp_path, shell="process")
    with process_runner(load("files/two-phase"), scratch) as runner:
        runner.slowest_seconds = slowest
        host = runner.new_host(named_job("standard"))
        assert (hung_after, patience) == (host.hang_seconds, host.patience_seconds)


SLOW_WITH_MANY_ROWS = """\
import threading, time
from sinkproof import Claim

class Target:
    def __init__(self, folder): self.folder = folder
    def is_committed(self, part): return (self.folder / part).exists()
    def publish(self, part, rows):
        if len(rows) > 100:
            {wait}
        new = self.folder / f"{{part}}.new"
        new.write_text("".join(f"{{row.split}} {{row.offset}}\\n" for row in rows))
        new.rename(self.folder / part)
    def record(self, part): ...

class Of:
    claims = Claim.NO_LOSS
    def sink(self, scratch): return Target(scratch.path)
    def committed(self, scratch):
        for file in scratch.path.glob("*[!w]"):
            yield from (tuple(map(int, line.split())) for line in file.read_text().splitlines())
"""
TAKES_LONG = "threading.Event().wait(1.5)"
HANGS = "threading.Event().wait()"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wait", "finishes"), [pytest.param(TAKES_LONG, True, marks=pytest.mark.longer), (HANGS, False)]
)
def test_a_call_with_more_rows_than_usual_is_given_more_time_and_not_for_ever(
    wait: str, *, finishes: bool, tmp_path: Path
) -> None:
    hung_after = 1.0 if finishes else 0.3
    file = tmp_path / "slow.py"
    file.write_text(SLOW_WITH_MANY_ROWS.format(wait=wait))
    with (
        scratch_folder() as folder,
        process_runner(
            load(f"{file}:Of"), Scratch(name="slow", path=folder, shell="process"), hang_seconds=hung_after
        ) as runner,
    ):
        result = runner.run(parse("job=large-batches sink[0].publish.before#1=kill"))
        assert 6 * hung_after == runner.call_seconds_most
    assert (True, finishes) == (result.fired, result.finished)
    assert finishes is not any(anomaly.oracle == "O1" for anomaly in result.anomalies)
