"""A replay says why a fault did not find its point, and is UNKNOWN."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sinkproof.certifier.replay import describe, replay
from sinkproof.judging.verdict_and_exit_codes import Verdict
from sinkproof.subject.contract import ContractError

BACKUP: Final = f"{Path(__file__).parents[2].joinpath('support/explored_sinks.py')}:OneBackupContract"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "subject", "why"),
    [
        ("sink[0].write.after#99=kill", "memory/plain", "(it was passed 10 times)"),
        ("sink[0].file.nosuch#1=kill", "memory/plain", "(never passed; sink[0] passes acknowledge.after, "),
        (
            "sink[9].write.after#1=kill",
            "memory/plain",
            "(there is no sink[9] in this job, but coordinator, source[0], ",
        ),
        ("sink[0].line(explored_sinks.py:9999)#1=kill", BACKUP, "(line 9999 of explored_sinks.py is not executed "),
        (
            "sink[0].write.after#2=pause sink[0].write.after#1=pause",
            "memory/plain",
            "(it was passed only before the preceding fault: faults strike in their order)",
        ),
        (
            "sink[0].line(explored_sinks.py:2)#1=kill",
            BACKUP,
            "(line 2 of explored_sinks.py is not executed within a function)",
        ),
    ],
)
def test_a_replay_says_why_a_fault_was_never_injected(schedule: str, subject: str, why: str) -> None:
    replayed = replay(schedule, subject)
    assert Verdict.UNKNOWN is replayed.verdict
    assert f"never struck: {schedule.split()[-1]} {why}" in describe(replayed)


def test_a_fault_at_a_point_where_it_cannot_be_injected_is_refused() -> None:
    refused = "'depose' strikes elsewhere, if at all: split brain: the coordinator is suspended"
    with pytest.raises(ContractError, match=refused):
        replay("generation.after#1=depose", "memory/two-phase")


REFUSES: Final = """\
import json
from sinkproof import Claim

class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {{}}

    def open(self, context):
        for name, rows in (part for _, state in context.restored for part in json.loads(state).items()):
            (self.folder / name).write_text(json.dumps(rows))

    def write(self, batch):
        assert all({condition} for row in batch)
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[f"{{checkpoint_id}}-{{id(self)}}.json"], self.rows = self.rows, []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id):
        for name, rows in self.pending.items():
            (self.folder / name).write_text(json.dumps(rows))

class Refusing:
    claims = Claim.NO_LOSS

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in scratch.path.glob("*.json"):
            yield from json.loads(file.read_text())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "schedule", "verdict"),
    [
        ("row.key", "job=edge-case-values no-fault", Verdict.VIOLATED),
        ("row.key", "no-fault", Verdict.UPHELD),
        ("False", "no-fault", Verdict.UNKNOWN),
        ("len(row.key) < 1000", "job=long-keys no-fault", Verdict.UPHELD),
    ],
)
def test_a_sink_that_fails_without_faults_is_unknown_in_the_standard_job_only(
    condition: str, schedule: str, verdict: Verdict, tmp_path: Path
) -> None:
    (tmp_path / "refuses.py").write_text(REFUSES.format(condition=condition))
    replayed = replay(schedule, f"{tmp_path}/refuses.py:Refusing")
    assert verdict is replayed.verdict
    may_refuse = schedule.startswith("job=long-keys")
    assert may_refuse is ("the job did not recover, as it may here, so that no loss was judged" in describe(replayed))
