"""A sink that goes by the wall clock is convicted where that passes midnight, or is set back; its sibling is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos import wall_clock
from sinkproof.chaos.clock import utc_now
from sinkproof.chaos.schedule import STANDARD, Schedule, parse
from sinkproof.execution.process_runner import ProcessRunner, process_runner
from sinkproof.generators import high_yield
from sinkproof.generators.feasible import impossible
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch
from sinkproof.workload.job_names import CLOCK_SKEW_JOB, OUTAGE_JOB, WALL_CLOCK_JOBS, YEAR_END_JOB
from sinkproof.workload.jobs import named_job

pytestmark = pytest.mark.slow
STAGE = "wall clock passes the end of a year and of daylight saving time"
SINK = """\
import json, os, time
from datetime import datetime, timezone
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.staged, self.voted = folder, [], {{}}, datetime.now()

    def open(self, context):
        self.me = f"{{context.subtask}}-{{context.generation}}"
        for file in self.folder.glob("*.staged"):
            age = time.time() - file.stat().st_mtime
            assert -60 < age, f"{{file.name}} was written in the future"
            if age > {kept}:
                file.unlink()
        for _, state in context.restored:
            for name in json.loads(state).values():
                self.publish(name)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        name = self.staged[checkpoint_id] = f"{{self.me}}-{{checkpoint_id}}-{{{day}}}"
        self.voted = datetime.now()
        (self.folder / f"{{name}}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps(self.staged).encode()

    def notify_complete(self, checkpoint_id):
        if {doubt}:
            return
        for older in [each for each in self.staged if each <= checkpoint_id]:
            self.publish(self.staged.pop(older))

    def publish(self, name):
        subtask, generation, checkpoint, _ = name.split("-")
        staged = self.folder / f"{{subtask}}-{{generation}}-{{checkpoint}}-{{{day}}}.staged"
        if staged.exists():
            os.rename(staged, self.folder / f"{{name}}.json")


class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
SIGNED = """\
import json, threading, time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from sinkproof import Claim

PARTS = {}


class Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_new = abs(time.time() - float(self.headers["Signed"])) < 300
        if is_new:
            PARTS[self.path] = rows
        self.send_response(200 if is_new else 403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Sink:
    def __init__(self, port):
        self.port = port

    def is_committed(self, part):
        return False

    def publish(self, part, rows):
        connection = HTTPConnection("127.0.0.1", self.port)
        rows = [[row.split, row.offset] for row in rows]
        connection.request("PUT", f"/{part}", json.dumps(rows), {"Signed": str(time.time())})
        status = connection.getresponse().status
        connection.close()
        if status != 200 and {refuses}:
            raise ConnectionError(status)

    def record(self, part):
        pass


class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES

    def setup(self, scratch):
        PARTS.clear()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        (scratch.path / "port").write_text(str(self.server.server_address[1]))

    def teardown(self, scratch):
        self.server.shutdown()
        self.server.server_close()

    def sink(self, scratch):
        return Sink(int((scratch.path / "port").read_text()))

    def committed(self, scratch):
        for rows in list(PARTS.values()):
            yield from rows
"""
RIGHT = {"day": "'always'", "doubt": "False", "kept": "7 * 86400"}


@contextmanager
def runner_of(folder: Path, **sin: str) -> Iterator[ProcessRunner]:
    file = folder / f"sink_of_{folder.name}.py"
    file.write_text(SINK.format(**{**RIGHT, **sin}))
    (folder / "scratch").mkdir()
    scratch = Scratch(name="data", path=folder / "scratch", shell="process")
    with process_runner(load(f"{file}:Of"), scratch) as runner:
        yield runner


VOTED: Final = "sink[1].acknowledge.before#3"


@pytest.mark.parametrize(
    ("sin", "schedule"),
    [
        ({"day": "datetime.now(timezone.utc):%Y%m%d"}, f"job=year-end {VOTED}=clock-forward"),
        ({"day": "time.strftime('%Y')"}, f"job=year-end {VOTED}=clock-forward"),
        ({"doubt": "datetime.now() < self.voted"}, f"job=daylight-saving {VOTED}=clock-forward"),
        (
            {"doubt": "time.time() < self.voted.timestamp()"},
            f"job=year-end sink[1].write.after#1=clock-forward {VOTED}=clock-back",
        ),
        ({"kept": "1800"}, "job=year-end checkpoint.persist.after#1=kill-job generation.before#2=clock-forward"),
        ({"kept": "86400"}, "job=outage checkpoint.persist.after#1=kill-job"),
    ],
    ids=["day", "year", "local time", "time that goes back", "files of half an hour ago", "files of a day ago"],
)
def test_a_sink_that_goes_by_the_wall_clock_loses_rows(sin: dict[str, str], schedule: str, tmp_path: Path) -> None:
    with runner_of(tmp_path, **sin) as runner:
        assert "O1" in {each.oracle for each in runner.run(parse(schedule)).anomalies}
        assert not runner.run(replace(parse(schedule), job=STANDARD)).anomalies


@pytest.mark.parametrize(("refuses", "found"), [(True, []), (False, ["O1"])])
def test_a_server_may_refuse_what_a_moved_clock_has_signed_and_no_row_may_be_lost(
    refuses: bool, found: list[str], tmp_path: Path
) -> None:
    (tmp_path / "signed.py").write_text(SIGNED.replace("{refuses}", str(refuses)))
    (tmp_path / "scratch").mkdir()
    scratch = Scratch(name="data", path=tmp_path / "scratch", shell="process")
    with process_runner(load(f"{tmp_path / 'signed.py'}:Of"), scratch) as runner:
        assert not runner.run(Schedule()).anomalies
        moved = runner.run(parse("job=clock-skew checkpoint.persist.after#1=kill-job"))
    assert refuses != moved.finished
    assert found == [each.oracle for each in moved.anomalies]


def test_beside_a_service_attempts_pass_local_midnight_and_see_the_true_time(tmp_path: Path) -> None:
    with runner_of(tmp_path, day="datetime.now():%Y%m%d") as runner:
        runner.scratch.services.used.add("kafka")
        clock = runner.wall_clock_of(named_job(YEAR_END_JOB))
        assert clock is not None
        assert abs(clock.start - utc_now().timestamp()) < 600
        assert [None, None] == [runner.wall_clock_of(named_job(job)) for job in (OUTAGE_JOB, CLOCK_SKEW_JOB)]
        passed = runner.run(parse(f"job=year-end {VOTED}=clock-forward"))
        assert passed.moved_wall_clock
        assert "O1" in {each.oracle for each in passed.anomalies}


def test_beside_a_store_with_rows_dated_by_clients_no_clock_moves(tmp_path: Path) -> None:
    with runner_of(tmp_path) as runner:
        runner.scratch.services.used.add("cassandra")
        assert runner.wall_clock_of(named_job(YEAR_END_JOB)) is None


@pytest.mark.parametrize("hour", range(24))
def test_the_zone_beside_a_service_makes_it_half_past_eleven(hour: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = utc_now().replace(hour=hour, minute=17, second=5, microsecond=0)
    monkeypatch.setattr(wall_clock, "utc_now", lambda: moment)
    clock = wall_clock.half_an_hour_before_midnight()
    command = [sys.executable, "-c", f"import time; print(time.strftime('%H:%M:%S', time.localtime({clock.start!r})))"]
    done = subprocess.run(command, env={"TZ": clock.zone}, capture_output=True, text=True, check=True)
    assert "23:30:00" == done.stdout.strip()


def test_the_stage_of_a_service_is_short_and_goes_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessCampaign, "has_breakable_service", True)
    with runner_of(tmp_path) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=runner.contract, shell="process"))
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        of_clocks = [each for each in campaign.tried if each.job == YEAR_END_JOB]
    assert 6 == len(of_clocks)
    assert {"clock-forward", "clock-back", "kill-job"} == {fault.kind for each in of_clocks for fault in each.faults}
    assert [] == campaign.results.findings


@pytest.mark.longer
def test_the_stage_acquits_its_right_sibling_and_no_file_is_from_the_future(tmp_path: Path) -> None:
    with runner_of(tmp_path) as runner:
        results = CampaignResults(contract=runner.contract, shell="process")
        campaign = ProcessCampaign(runner, results)
        campaign.carry_out([stage for stage in PROCESS_PLAN if stage.name == STAGE])
        assert not runner.run(parse("job=outage checkpoint.persist.after#1=kill-job")).anomalies
    struck = {f"job={job} {kind}" for job in WALL_CLOCK_JOBS for kind in ("clock-forward", "kill-job")}
    assert results.findings == []
    assert results.coverage.stages[0].finished
    assert struck <= {f"job={each.job} {fault.kind}" for each in campaign.tried for fault in each.faults}


@pytest.mark.parametrize("shell", ["simulated", "spark"])
@pytest.mark.parametrize("job", WALL_CLOCK_JOBS)
def test_these_jobs_run_where_sinks_are_processes(job: str, shell: str) -> None:
    assert "--on process" in impossible(Schedule(job=job), load("files/two-phase"), shell)


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        ("rows_by_programs.py:WholeParts", "programs that it starts"),
        ("segments_in_c.py:Renamed", "libraries that it loads"),
    ],
)
def test_code_that_keeps_the_true_time_is_named(
    sinks: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(high_yield, "moved_wall_clocks", lambda campaign: [])
    contract = load(f"{Path(__file__).parents[2] / 'support' / sinks}")
    with process_runner(contract, Scratch(name="named", path=tmp_path, shell="process")) as runner:
        campaign = ProcessCampaign(runner, CampaignResults(contract=contract, shell="process"))
        campaign.carry_out([])
        campaign.pass_midnight()
    assert [f"the wall clock was not moved inside: {said}"] == campaign.results.notes
