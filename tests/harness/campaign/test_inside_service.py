"""Services that are killed between two of their own writes: one that is wrong there, and its right sibling."""

from __future__ import annotations

import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sinkproof.campaign.inside_service.inside_campaign import _struck, _watched
from sinkproof.campaign.outward_calls_plan import INSIDE_SERVICE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.stage import Need, Stage
from sinkproof.canaries.inside_services import on_two_file_store
from sinkproof.canaries.inside_services.two_file_store import LocalStore, request
from sinkproof.certifier.not_examined import not_examined
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.services.inside_run import RESTART
from sinkproof.chaos.services.local_service import ServiceNode
from sinkproof.chaos.services.watched_service import WatchedService
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators.feasible import impossible
from sinkproof.reference_engine.shells.reader_command import ReaderFailed
from sinkproof.reports.coverage_text import code_lines
from sinkproof.reports.document import ShellResult
from sinkproof.reports.json_files import plain
from sinkproof.reports.watched_calls import InsideService
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, scratch_folder
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

from ...support.real_services import end_own_services

LAST = "service-notify_complete[6].syscall(write commit.log)#1=kill"
COMMIT = "syscall(write commit.log)"
DATA = "syscall(write data.log)"
INSIDE = InsideService(
    service="Kafka 4.2.1",
    settings=["a: b"],
    calls=5,
    killed=4,
    steps={"snapshot": 2, "notify_complete": 3},
    restart_calls=30,
    restart_killed=30,
    restart_names=["x", "y"],
    background=["z"],
    unseen=["it maps *.index into its memory: what it writes there is no system call"],
    left=["snapshot: x#1"],
    left_total=1,
)
pytestmark = pytest.mark.usefixtures("watch_of_system_calls")


@contextmanager
def runner_on(store: str) -> Iterator[ProcessRunner]:
    contract = load(f"{on_two_file_store.__file__}:{store}")
    services = ServicesInUse(options=ServiceOptions(inside_service=True))
    try:
        with (
            scratch_folder() as folder,
            process_runner(contract, Scratch(name="inside", path=folder, shell="process", services=services)) as runner,
        ):
            yield runner
    finally:
        end_own_services(contract.given.kind.name)


def campaign_on(store: str) -> CampaignResults:
    with runner_on(store) as runner:
        services = runner.scratch.services
        results = CampaignResults(contract=runner.contract, shell="process", services=services)
        ProcessCampaign(runner, results).carry_out(INSIDE_SERVICE)
    return results


@pytest.mark.slow
def test_a_service_that_answers_before_its_second_write_is_convicted_at_that_write_alone() -> None:
    results = campaign_on("OnHastyStore")
    assert [f"{COMMIT}=kill"] == [place for _, place in results.places_found]
    (finding,) = results.findings
    assert ("O1", True) == (finding.oracle, finding.claimed)
    assert "--on process" in finding.replay
    assert (
        "hasty store 1 was killed before its call write of commit.log. It had acknowledged the request" in finding.why
    )
    assert "of notify_complete number 1; earlier requests: 2 open, 4 snapshot" in finding.why
    inside = results.coverage.inside
    assert {("snapshot", DATA, 1), ("notify_complete", DATA, 1), ("notify_complete", COMMIT, 1)} < set(inside.calls)
    assert [] == inside.calls_left()
    assert {"syscall(openat data.log)", "syscall(openat commit.log)"} < {point for _, point, _ in inside.restart}


@pytest.mark.slow
@pytest.mark.longer
def test_its_right_sibling_is_acquitted_at_each_of_its_calls() -> None:
    results = campaign_on("OnTwoFileStore")
    assert ([], []) == (results.findings, results.unknowns)
    inside = results.coverage.inside.document()
    assert inside is not None
    assert (5, 5, 3, 3, 0) == (
        inside.calls,
        inside.killed,
        inside.restart_calls,
        inside.restart_killed,
        inside.left_total,
    )
    (stage,) = results.coverage.stages
    assert (True, "") == (stage.finished, stage.cut)


@pytest.mark.slow
def test_what_a_service_writes_alike_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStore, "alike", ((re.compile("^/(data|commit)[.]log"), "/any.log"),))
    with runner_on("OnTwoFileStore") as runner:
        died = runner.run(parse("service-notify_complete[6].syscall(write any.log)#2=kill"))
        assert (True, ()) == (died.fired, died.anomalies)
        (restart,) = [window.calls for window in died.inside if window.step == RESTART]
        assert {"syscall(openat any.log)"} == {call for call in restart if "log" in call}


@pytest.mark.slow
def test_a_service_dies_in_its_restart_too_and_a_place_that_is_not_met_is_void() -> None:
    with runner_on("OnTwoFileStore") as runner:
        again = runner.run(parse(f"{LAST} service-restart[1].syscall(openat data.log)#1=kill"))
        assert (True, True, ()) == (again.fired, again.finished, again.anomalies)
        assert again.kills >= 2  # as is the attempt with the failed request
        assert [2, 3] == [len(window.calls) for window in again.inside if window.step == RESTART]
        assert "and in 1 restarts, at last before its call openat of data.log" in again.killed_inside
        void = runner.run(parse("service-notify_complete[6].syscall(write commit.log)#2=kill"))
        assert (False, True, 0, "") == (void.fired, void.finished, void.kills, void.killed_inside)
        service = runner.scratch.services.breakable()[0]
        runner.service.leave()
        assert [] == request(service.endpoint, "pending")
        assert service.died_by_itself() == ""


@pytest.mark.slow
def test_a_service_that_is_struck_after_all_looks_but_the_last_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = WatchedService._is_readable

    def looks_for_the_end_alone(watched: WatchedService, seconds: float | None, *others: int) -> bool:
        if seconds is None:
            select.select(others, [], [])
            return False
        return looks(watched, seconds)

    with runner_on("OnTwoFileStore") as runner:
        runner.run(Schedule())
        runner.service.watch()
        monkeypatch.setattr(WatchedService, "_is_readable", looks_for_the_end_alone)
        monkeypatch.setattr(WatchedService, "_await_quiet", lambda watched, seconds=0.0: False)
        result = runner.run(parse(LAST))
    assert (True, True, ()) == (result.fired, result.finished, result.anomalies)


@pytest.mark.slow
def test_a_service_that_does_not_start_again_convicts_no_sink() -> None:
    with runner_on("OnTwoFileStore") as runner:
        runner.run(Schedule())
        watched = runner.service.watch()
        with (watched.service.data_folder(watched.node) / "commit.log").open("ab") as log:
            log.write(b"no JSON")
        with pytest.raises(
            ReaderFailed, match=r"did not start again: two-file store 1 was killed before its call write"
        ):
            runner.run(parse(LAST.replace("commit.log", "data.log")))


@pytest.mark.slow
def test_without_a_service_of_its_own_nothing_is_killed_inside() -> None:
    contract = load("files/two-phase")
    with (
        scratch_folder() as folder,
        process_runner(contract, Scratch(name="x", path=folder, shell="process")) as runner,
    ):
        with pytest.raises(ContractError, match="no external system of this certification's own is in use"):
            runner.run(parse(LAST))
        results = CampaignResults(contract=contract, shell="process")
        ProcessCampaign(runner, results).carry_out(INSIDE_SERVICE)
    assert Need.SERVICE.value == results.coverage.stages[0].skipped
    assert results.coverage.inside.document() is None


@pytest.mark.parametrize(
    ("schedule", "shell", "is_possible"),
    [
        (LAST, "process", True),
        (LAST, "simulated", False),
        (LAST, "spark", False),
        (LAST[:-4] + "stop", "process", False),
    ],
)
def test_a_service_is_killed_inside_in_the_process_shell_only(schedule: str, shell: str, is_possible: bool) -> None:
    assert is_possible is not bool(impossible(parse(schedule), load("kafka/two-phase"), shell))


# -- what is counted --------------------------------------------------------------------------------


FIFTH_START_FAILS = """
echo start >>"$1/starts"; [ "$(wc -l <"$1/starts")" -ne 5 ] || exit 3
shift; exec "$@"
"""


@pytest.mark.slow
def test_a_service_that_does_not_start_again_goes_on_with_its_data_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts four times: for the sink, for the watch, and after two kills."""
    right = LocalStore.command

    def command(store: LocalStore, node: ServiceNode) -> list[str]:
        store.data_folder(node).mkdir(exist_ok=True)
        return ["sh", "-c", FIFTH_START_FAILS, "sh", str(store.data_folder(node)), *right(store, node)]

    def kill_four_times(campaign: ProcessCampaign) -> None:
        with _watched(campaign.runner, campaign.results.coverage.inside):
            for schedule in kills:
                _struck(campaign, schedule)

    kills = [parse(f"service-notify_complete[{number}].{COMMIT}#1=kill") for number in (1, 2, 3, 4)]
    monkeypatch.setattr(LocalStore, "command", command)
    with runner_on("OnTwoFileStore") as runner:
        results = CampaignResults(contract=runner.contract, shell="process", services=runner.scratch.services)
        ProcessCampaign(runner, results).carry_out((Stage(name="kills", explore=kill_four_times),))
    coverage = results.coverage.inside
    assert ({kills[0], kills[1], kills[3]}, [kills[2]]) == (coverage.struck, list(coverage.not_back))
    assert coverage.not_back[kills[2]].startswith("two-file store 1 was killed before its call write of commit.log")
    assert [] == results.findings


def test_the_certificate_says_what_was_struck_inside() -> None:
    shells = [{"outward": None, "power": None, "inside": plain(INSIDE), "long_jobs": []}]
    killed, left, background, unseen = code_lines({"shells": shells, "code": []})
    assert killed.startswith("Kafka 4.2.1 with a: b killed before 4 of 5 outward calls between a request to pre-commit")
    assert killed.endswith(
        "(snapshot 2, notify_complete 3), and before each of 30 outward calls of its restart; different ones: 2"
    )
    assert "not met again: snapshot: x#1, of 1 in all" == left
    assert background.endswith(": z")
    assert unseen == INSIDE.unseen[0]


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (INSIDE, "Kafka 4.2.1 was not killed before 1 of its calls, such as snapshot: x#1"),
        (replace(INSIDE, left=[], left_total=0), ""),
        (
            replace(INSIDE, not_back=["it was killed"], not_back_total=1),
            "did not start again, and what it has kept is not",
        ),
        (
            InsideService(unwatched="the kernel is old"),
            "was to be killed inside, and was not, because the kernel is old",
        ),
        (InsideService(service="Kafka 4.2.1"), "no outward call of its data folder was seen"),
        (None, ""),
    ],
)
def test_nothing_is_upheld_while_a_call_inside_was_not_struck(inside: InsideService | None, why: str) -> None:
    subject = SubjectProgress(load("files/two-phase"))
    before = not_examined(subject)
    subject.shells.append(
        ShellResult(shell="process", schedules_run=1, schedules_in_bound=1, kills=1, seconds=1.0, inside=inside)
    )
    added = not_examined(subject).replace(before, "")
    assert why in added
    assert bool(why) is bool(added)
