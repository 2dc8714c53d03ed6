"""A database refuses a statement, and the connection goes on: what of it is passed over is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.campaign.outward_calls_plan import NATIVE_CODE
from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.generators.native_calls import refused_statements
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

from ...support.traces_of_calls import run_of

SUBJECTS = Path(__file__).parents[2] / "support/pipelined_commands.py"
STAGES = [stage for stage in NATIVE_CODE if stage.name.startswith(("outward calls that no line", "refused statements"))]
SENT = "syscall(sendto socket)"
KIND = "refused-statement"


@pytest.mark.usefixtures("watch_of_system_calls")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("MarkedFirst", {"O1"}),
        pytest.param("Skipped", {"O1"}, marks=pytest.mark.longer),
        pytest.param("MarkedLast", set(), marks=pytest.mark.longer),
    ],
)
def test_what_a_database_refuses_is_sent_again_or_lost(name: str, found: set[str], tmp_path: Path) -> None:
    contract, scratch = load(f"{SUBJECTS}:{name}"), Scratch(name="refused", path=tmp_path, shell="process")
    with process_runner(contract, scratch) as runner:
        results = CampaignResults(contract=contract, shell="process")
        ProcessCampaign(runner, results).carry_out(STAGES)
    assert len(STAGES) == 2
    assert found == {finding.oracle for finding in results.findings}
    kinds = {finding.schedule.rpartition("=")[2] for finding in results.findings}
    assert bool(found) is (KIND in kinds)
    assert kinds <= {KIND, "kill-halfway"}  # half of such a request has the mark, and not the rows
    assert ([], []) == (results.unknowns, results.coverage.unfired)


def test_some_statements_of_each_line_are_refused_in_each_call_of_the_sink() -> None:
    opened = ("open.before", "line(client.py:3)", SENT, SENT, "open.after")
    commit = ("notify_complete.before", "line(client.py:7)", SENT, SENT, SENT, SENT, "line(client.py:8)", SENT)
    statements = [(SENT, time) for time in (2, 3, 4, 5, 6)]  # not to connect, and not the commit
    found = list(map(str, refused_statements(run_of(*opened, *commit, statements=statements))))
    assert [f"sink[0].{SENT}#{time}={KIND}" for time in (2, 3, 4, 6)] == found


def test_in_recoveries_those_are_refused_that_a_usual_run_does_not_send() -> None:
    usual = ("open.before", "line(client.py:3)", SENT, "open.after")
    again = ("open.before", "line(client.py:3)", SENT, "line(client.py:4)", SENT, "open.after")
    statements = [(SENT, time) for time in (1, 2, 3)]
    recorded = run_of(*usual, statements=statements)
    restored = run_of(*usual, *again, statements=statements)
    assert [f"sink[0].{SENT}#3={KIND}"] == list(map(str, refused_statements(restored, usual=recorded)))
