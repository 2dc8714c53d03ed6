"""What a dead driver has sent takes effect after its successor has looked, at the latest when that has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinkproof.chaos.schedule import COORDINATOR, Fault, parse
from sinkproof.foreach_batch.batch_state_machine import BatchPhase, MicroBatches
from sinkproof.foreach_batch.certify_function import refuse_other_faults
from sinkproof.foreach_batch.certifying_query import BEFORE_BATCH, BEFORE_COMMIT, ROWS
from sinkproof.foreach_batch.faults_at_targets import LATE_MOST, late_requests
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
from sinkproof.foreach_batch.watched_query import CallToTarget
from sinkproof.reports.document import SourceLine
from sinkproof.subject.contract import ContractError

from ...support.struck_functions import drivers

SEND = "syscall(sendto socket)"


@pytest.mark.slow
@pytest.mark.usefixtures("watch_of_system_calls", "usual_batches_only")
@pytest.mark.parametrize(
    ("function", "requests", "rows", "phase", "begun"),
    [
        ("put", 2, 0, BatchPhase.WRITTEN, 1),
        ("add_once", 4, 4, BatchPhase.WRITTEN, 1),
        ("add_locked", 4, 4, BatchPhase.WRITTEN, 1),
        ("add_in_turn", 6, 0, BatchPhase.PLANNED, 1),
        ("add_or_fail", 6, 0, BatchPhase.PLANNED, 2),
    ],
)
def test_a_request_of_a_dead_driver_lands_late(
    function: str,
    requests: int,
    rows: int,
    phase: BatchPhase,
    begun: int,
    query: Callable[..., SimulatedQuery],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`requests`: of two batches. `rows`: that are there twice. `phase`: of its successor then, which has `begun` the
    batch so often."""
    simulated = query(function, module="with_native_client")
    with drivers(simulated, tmp_path) as inside:
        late = late_requests(inside.calls())
        dead, landed = inside.driver, []
        land = dead.land
        monkeypatch.setattr(dead, "land", lambda: [landed.append(simulated.query), land()])
        ending, state, trail = follow(simulated, parse(str(late[0])), inside=inside)
        assert inside.held is None
        assert not dead.child.alive
    assert [f"{SEND}#{requests}=land"] == list(map(str, late[:1]))
    assert late[:1] == list(state.faults)
    assert landed[0] == MicroBatches(1, phase)
    assert "" == ending.failure
    assert rows == len(ending.committed) - len({*ending.committed})
    assert ROWS == len({*ending.committed})
    assert begun == trail.count((1, BEFORE_BATCH, 1))
    assert (1, BEFORE_COMMIT, 1) in trail


def test_the_last_request_of_each_line_lands_late_the_last_line_first() -> None:
    calls = [call(1, 1), call(2, 2), call(2, 3), call(3, 1, point="syscall(write out)"), call(4, 4)]
    assert [f"{SEND}#{number}=land" for number in (4, 3, 1, 2)] == list(map(str, late_requests(calls)))
    assert LATE_MOST == len(late_requests([call(line, line) for line in range(40)]))


def test_it_is_the_last_fault_of_a_simulated_run() -> None:
    refuse_other_faults(parse(f"{SEND}#1=kill-job {SEND}#2=land"), "simulated")
    for text, shell in (
        (f"{SEND}#1=land", "spark"),
        ("file.rename#1=land", "simulated"),
        (f"{SEND}#1=land {SEND}#2=kill-job", "simulated"),
    ):
        with pytest.raises(ContractError, match="land at a system call that sends something"):
            refuse_other_faults(parse(text), shell)


def call(line: int, number: int, *, point: str = SEND) -> CallToTarget:
    death, made_by = Fault(COORDINATOR, point, number, "kill-job"), SourceLine(file="a.py", number=line)
    return CallToTarget(death, made_by, f"line(a.py:{line})", of_spark=False)
