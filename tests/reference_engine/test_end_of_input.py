"""How jobs end: by the end of the input, or by a request to stop; in one go, staggered, or not at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.dataflow.job_graph import Plan
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row

MODES = [
    pytest.param({}, id="cut by progress"),
    pytest.param({"checkpoint_interval": 7}, id="by time"),
    pytest.param({"checkpoint_interval": 7, "unaligned_checkpoints": True}, id="unaligned"),
]


class Staggered(GeneratedInput):
    """Splits of different lengths, one of them empty: sources end one after the other."""

    LENGTHS = (3, 14, 0)

    def __init__(self) -> None:
        super().__init__(lambda split, at: Row(split, at, f"k{at % 3}", f"v{split}.{at}"), splits=3)

    def length(self, split: int) -> int:
        return self.LENGTHS[split]

    def batch(self, split: int, offset: int) -> Any:
        self.rows_per_split = self.LENGTHS[split]
        return super().batch(split, offset)


EVERY_ROW = Counter((split, at) for split, length in enumerate(Staggered.LENGTHS) for at in range(length))


def staggered(engine: Any) -> Plan:
    return engine.plan(source=Staggered(), sources=3)  # type: ignore[no-any-return]


@pytest.mark.row("S12")
@pytest.mark.parametrize("options", MODES)
def test_sources_that_end_one_after_the_other_end_with_one_final_checkpoint(engine: Any, options: Any) -> None:
    run = engine.run(plan=staggered(engine), **options)
    assert [False] * (len(run.witness.decided) - 1) + [True] == [record.final for record in run.witness.decided]
    assert len(run.witness.decided) > 1, "checkpoints go on while some have ended"
    assert (1, EVERY_ROW) == (len(run.noted("generation")), run.counts)


@pytest.mark.slow
@pytest.mark.row("S12")
@pytest.mark.parametrize("options", MODES)
def test_no_row_is_lost_or_repeated_by_any_death_at_a_staggered_end(engine: Any, options: Any) -> None:
    run = engine.run(plan=staggered(engine), **options)
    schedules = engine.every_single_crash(run)
    for schedule in schedules[len(schedules) // 2 :]:
        crashed = engine.run(plan=staggered(engine), schedule=schedule, **options)
        assert EVERY_ROW == crashed.counts, schedule
        assert crashed.simulation.finished, schedule


@pytest.mark.row("S12")
@pytest.mark.row("S09")
@pytest.mark.parametrize("voter", ["source[0]", "source[1]", "sink[0]", "sink[1]"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("tolerated", [0, 10])
def test_a_final_checkpoint_that_fails_is_taken_again(engine: Any, voter: str, times: int, tolerated: int) -> None:
    """By the same generation where that is tolerated, by the next one where it is not."""
    schedule = " ".join([f"{voter}.acknowledge.before#3=decline", f"{voter}.acknowledge.before#4=decline"][:times])
    run = engine.run(schedule=schedule, tolerable_checkpoint_failure_number=tolerated)
    finals = [record.checkpoint_id for record in run.witness.decided if record.final]
    assert [3 + times] == finals, "the one that failed is not taken for it"
    assert (1 if tolerated else 1 + times) == len(run.noted("generation"))
    assert engine.rows_of(engine.input()) == run.counts


@pytest.mark.row("S12")
def test_a_final_checkpoint_that_times_out_is_taken_again(engine: Any) -> None:
    late = engine.run(
        schedule="checkpoint.trigger#5=lose", checkpoint_timeout=50
    )  # to the second source of checkpoint 3, which is the final one
    assert [1, 2, 4] == [record.checkpoint_id for record in late.witness.decided]
    assert (1, engine.rows_of(engine.input())) == (len(late.noted("generation")), late.counts)


@pytest.mark.row("S12")
@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("at_ms", [1, 9, 20, 33, 44])
def test_a_job_that_was_stopped_has_committed_what_it_has_read_and_goes_on_from_there(
    engine: Any, options: Any, at_ms: int
) -> None:
    storage, target = MemoryCheckpointStorage(), engine.Target()
    before = engine.request(at_ms, "stop_with_checkpoint")
    stopped = engine.run(plan=staggered(engine), before=before, storage=storage, target=target, **options)
    assert stopped.simulation.finished
    offsets = stopped.simulation.covered(storage.record)
    assert {row for row in EVERY_ROW if row[1] < offsets.get(row[0], 0)} == set(stopped.counts)
    going_on = MemoryCheckpointStorage(
        generation=storage.generation, record=storage.record and storage.record._replace(final=False)
    )
    again = engine.run(plan=staggered(engine), storage=going_on, target=target, **options)
    assert EVERY_ROW == again.counts
