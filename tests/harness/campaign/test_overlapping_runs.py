"""Runs overlap only where nothing shows that they share anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.campaign_budget import _pool_notes
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.workers import process_workers
from sinkproof.campaign.workers.process_workers import ONE_BY_ONE, is_apart, workers_beside
from sinkproof.campaign.workers.watched_setup import keeps_to_its_folder
from sinkproof.campaign.workers.worker_pool import PoolNotes
from sinkproof.chaos.processes.spawn import ForkServer
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.system_calls.supervisor import UNREADABLE, maps_below_folder
from sinkproof.execution.make_sink import PRELOAD
from sinkproof.reports.progress import Progress
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.opened_process_runner import made_folder, opened

OVERLAPPING = Path(__file__).parents[2] / "support/overlapping_runs.py"


@pytest.mark.parametrize("subject", ["NotesElsewhere", "NotesInRecoveries", "StagesElsewhere", "Sends", "Binds"])
def test_runs_that_may_share_something_never_overlap(subject: str) -> None:
    with opened(f"{OVERLAPPING}:{subject}") as runner:
        assert not is_apart(runner)
        runner.scratch.path.with_name(f"{runner.scratch.path.name}-noted").unlink(missing_ok=True)


def test_how_runs_could_overlap_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_workers, "WORTH", 1)
    said: list[str] = []
    with (
        opened(f"{OVERLAPPING}:NotesElsewhere") as runner,
        workers_beside(runner, 2, notes=PoolNotes(say=said.append)) as workers,
    ):
        for _ in range(2):
            assert list(workers.run_all([Schedule()], trace_lines=False, run=runner.run))
        runner.scratch.path.with_name(f"{runner.scratch.path.name}-noted").unlink(missing_ok=True)
    assert [ONE_BY_ONE] == said
    assert "side_by_side" in ONE_BY_ONE


@pytest.mark.parametrize(
    "subject", ["SetUpElsewhere", "SetUpByName", "SetUpAtAddress", "TornDownElsewhere", "SetUpOnce"]
)
def test_nor_do_runs_that_are_set_up_where_others_are(subject: str) -> None:
    with ForkServer(preload=PRELOAD) as server, made_folder() as folder:
        scratch = Scratch(name="first", path=folder, shell="process")
        assert not keeps_to_its_folder(server, load(f"{OVERLAPPING}:{subject}"), scratch)
        folder.with_name("torn-down").unlink(missing_ok=True)


def test_what_lies_beside_a_scratch_folder_in_the_folder_of_temporary_files_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("SINKPROOF_SCRATCH", str(tmp_path))
    with opened(f"{OVERLAPPING}:NotesElsewhere") as runner:
        assert not is_apart(runner)


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["overlapping_runs:Apart", "overlapping_runs:SetUp", "epochs_in_table:FencesFirst"])
def test_runs_that_keep_to_their_folder_may_overlap(subject: str) -> None:
    file, name = subject.split(":")
    with opened(f"{OVERLAPPING.with_name(f'{file}.py')}:{name}") as runner:
        assert is_apart(runner)


def test_a_file_elsewhere_that_a_run_maps_may_be_mapped_by_another_one() -> None:
    text = "it maps {} into its memory: what it writes there is no system call"
    assert [True, False] == [maps_below_folder(text.format(name)) for name in ("out.db-shm", "/dev/shm/shared")]
    assert not maps_below_folder(f"{UNREADABLE}: no right")


def test_a_campaign_hands_on_what_its_pools_say() -> None:
    class Shown(Progress):
        def say(self, text: str) -> None:
            said.append(text)

    said: list[str] = []
    _pool_notes(CampaignResults(contract=load("files/two-phase"), shell="process", progress=Shown())).say(ONE_BY_ONE)
    assert [ONE_BY_ONE] == said
