"""A recovery from each checkpoint alone, without further rows: what was acknowledged must be recoverable (O10, O6).

A sink may carry rows over to its next checkpoint. What a recovery alone does not bring back is looked for again when
the restored job has read the rest of its input.
"""

from __future__ import annotations

from typing import Final

from sinkproof.campaign.results import CampaignResults
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.exploration.job_world import JobState, JobWorld
from sinkproof.judging.observer import Observer
from sinkproof.judging.oracle import Anomaly
from sinkproof.reference_engine.checkpointing.memory_storage import MemoryCheckpointStorage
from sinkproof.reference_engine.shells.carry_out_effects import IN_DOUBT
from sinkproof.reference_engine.shells.simulated.simulation import Simulation
from sinkproof.workload.ledger import Identity

PERSISTED: Final = "checkpoint.persist.after"


def try_recoveries(runner: ScheduleRunner, results: CampaignResults, job: str) -> int:
    """Restores each checkpoint of a run from a copy, as if it were the last one: its rows must be recovered."""
    world = JobWorld(runner, job=job)
    states: list[JobState] = []

    def visit() -> None:
        assert world.simulation is not None
        if world.simulation.trace[-1][1] == PERSISTED:
            states.append(world.freeze())

    world.run(world.beginnings()[0], visit)
    for state in states:
        results.coverage.runs += 1
        results.coverage.crashed({PERSISTED: 1}, covered={})
        _recover_alone(world, state, results=results)
    return len(states)


def _recover_alone(world: JobWorld, state: JobState, *, results: CampaignResults) -> None:
    runner, record = world.runner, state.record
    assert record is not None
    simulation, observer = _restored(world, state, final=True)
    opened: set[Identity] = set()

    def look(_: Simulation, point: str) -> None:
        """The last time this is reached every sink was opened, and none has been notified."""
        if point == "checkpoint.notify":
            opened.clear()
            opened.update(observer.read() or ())

    results.progress.step(f"a recovery from checkpoint {record.checkpoint_id} alone", 0)
    simulation.on_point = look
    runner.play(simulation)
    if runner.contract.rows != "append":
        return
    offsets, back = simulation.covered(record), set(observer.observation.committed)
    promised = [row for row in observer.ledger.expected if row[1] < offsets.get(row[0], 0)]
    missed, late = [row for row in promised if row not in back], [row for row in promised if row not in opened]
    if missed and not record.final:  # a sink may carry rows over to its next checkpoint
        goes_on, observer = _restored(world, state, final=False)
        runner.play(goes_on)
        in_the_end = set(observer.observation.committed)
        missed, late = [row for row in missed if row not in in_the_end], [row for row in late if row in back]
    if missed:
        why = (
            f"checkpoint {record.checkpoint_id} was acknowledged by all, but a recovery from its durable state "
            f"alone did not bring back {len(missed)} of its rows"
        )
        results.find(Anomaly(oracle="O10", why=why, lost=tuple(missed)), world.schedule(state))
    elif late and not any(what == IN_DOUBT for _, _, _, what, _ in simulation.history):
        why = (
            f"{len(late)} rows of checkpoint {record.checkpoint_id} stay invisible after `open` has restored it, "
            "until something else is notified; an `open` that cannot settle them yet returns their checkpoint ids"
        )
        results.find(Anomaly(oracle="O6", why=why, lost=tuple(late)), world.schedule(state))


def _restored(world: JobWorld, state: JobState, *, final: bool) -> tuple[Simulation, Observer]:
    """The job that restores this checkpoint. `final`: it ends with that; otherwise it reads the rest of its input."""
    assert state.record is not None
    world.thaw_target(state.target)
    record = state.record._replace(final=True) if final else state.record
    storage = MemoryCheckpointStorage(generation=state.generation, record=record)
    return world.runner.simulation(Schedule(job=world.job), storage=storage)
