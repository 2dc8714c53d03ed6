"""What a simulation is given: the job, a host for the attempts of sinks, a watcher; and what these see of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from sinkproof.chaos.schedule import IN_ORDER, Fault
from sinkproof.chaos.wall_clock import WallClock
from sinkproof.reference_engine.checkpointing.checkpoint_configuration import (
    CheckpointConfiguration,
    CheckpointingMode,
    refuse_unsuitable,
)
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.restart_strategy import FixedDelay, RestartStrategy
from sinkproof.reference_engine.dataflow.buffered_input import BufferedSubtask
from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import Plan, SubtaskPlan
from sinkproof.reference_engine.dataflow.subtask import Subtask
from sinkproof.reference_engine.dataflow.unaligned_barriers import UnalignedSubtask
from sinkproof.reference_engine.shells.virtual_timing import Clock, Latencies, Timing
from sinkproof.sink_adapters.protocol import Sink

RESTARTS_MOST: Final = 25  # a schedule injects a handful of faults; a sink that fails more often never recovers


class Host(Protocol):
    """Where attempts of sinks live: in this process, or in processes of their own."""

    struck_line: str  # where the last fault struck inside a call, as a point, if its stack is in another process
    dead_unwind: bool  # whether a dead attempt's code still runs its `finally` in this process

    def spawn(self, actor: str, subtask: int, generation: int) -> Sink:
        """A new attempt that knows nothing; `open` follows."""

    def kill(self, sink: Sink) -> None:
        """SIGKILL: nothing of the attempt runs any more. In process: it is kept, so that nothing of it is finalised."""

    def terminate(self, sink: Sink, *, calls: int) -> bool:
        """SIGTERM: the attempt ends by itself, or has answered so many calls more when it is killed. Returns whether it
        goes on until then.
        """

    def retire(self, sink: Sink) -> None:
        """The attempt was cancelled and has been closed."""

    def vacate(self, sink: Sink) -> None:
        """The attempt has failed and has been closed; its successor is to run in the same process."""

    def close(self) -> None:
        """The run is over: what is left of it is discarded."""

    def reap(self) -> None:
        """Returns when everything that ended attempts held (locks, connections) has been released."""


class RunningJob(Protocol):
    """A simulated run as its effects and its watcher see it."""

    names: tuple[str, ...]  # of actors, by id
    now: float  # ms of virtual time
    queue: list[tuple[Any, ...]]  # a heap of (time, number, (actor id, generation), event)
    sequence: int  # number of the event posted last
    latency: Latencies
    host: Host
    storage: Any  # a CheckpointStorage
    target: Any  # a FaultableTarget, or None
    points_off: bool  # while a reader or the target itself acts
    on_point: Callable[[Any, str], None] | None  # called with the run and the point
    finished: bool
    failure: str

    def run(self) -> None:
        """Delivers events; nested, on top of the stack of an attempt that died or is suspended."""

    def recover_quietly(self) -> None:
        """Restarts the job once more from its last checkpoint, without faults or points."""


class Watcher(Protocol):
    """Reads the outside world while the job runs."""

    def deciding(self, job: RunningJob, record: CheckpointRecord) -> None:
        """Right before a checkpoint's decision becomes durable: the last moment at which its rows must be invisible."""

    def deploying(self, job: RunningJob) -> None:
        """A generation is about to begin: attempts of the one before it are dead, or suspended."""

    def injecting(self, job: RunningJob, fault: Fault) -> None:
        """A fault is about to be injected where the stack now stands."""

    def resuming(self, job: RunningJob, actor: str) -> None:
        """A suspended attempt is about to go on as a zombie."""

    def resumed(self, job: RunningJob, actor: str) -> None:
        """The zombie has finished the event in which it was suspended."""

    def ended(self, job: RunningJob) -> None:
        """The job has finished, or failed for good. Called once, before anything of the dead unwinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is run, apart from the sink: the plan, how checkpoints are taken, how the job restarts."""

    plan: Plan
    later: Plan | None = None  # once there is a checkpoint to restore: the same vertices with another parallelism
    there_and_back: bool = False  # the restart after one with the other parallelism has the first one again
    again: Plan | None = None  # after every restart: the same vertices, but batches are cut in another way
    clock: Clock | None = None  # as attempts see it; None: the true one
    wall_clock: WallClock | None = None  # of attempts that are processes; None: the machine's
    outage_seconds: float = 0.0  # that pass before each restart
    thread_pace: Literal["", "slow", "overtaken", "impatient", "hurried"] = ""  # of attempts that are processes
    orphans_seconds: float = 0.0  # that programs which a dead process has started have to end by themselves
    contained: bool = False  # attempts that are processes have one id, as in containers
    lists_by_hash: bool = False  # of attempts that are processes: folders are listed as by another file system
    receives_in_pieces: bool = False  # of attempts that are processes: TCP brings them a few bytes at a time
    reads_are_points: bool = False  # of attempts that are processes: reads of files
    patient: bool = False  # attempts that are processes wait longer for one that is suspended, and may give up
    other_hosts: bool = False  # of attempts that are processes: each is on a host of its own, a restart on other disks
    idle_connections_end: str = ""  # of a process that is suspended: "all", or "unused": all but the one used last
    processes_reused: bool = False  # the successor of an attempt that failed, and did not die, runs in its process
    configuration: CheckpointConfiguration
    buffers: Buffers | None = None  # between subtasks, in the simulated shell; None: none, and none is ever full
    timing: Timing = field(default_factory=Timing)
    restart: Callable[[], RestartStrategy] = lambda: FixedDelay(attempts=RESTARTS_MOST)
    _latencies: dict[tuple[int, str], Latencies] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for plan in filter(None, (self.plan, self.later, self.again)):
            refuse_unsuitable(plan, self.configuration)

    def subtask(self, plan: SubtaskPlan, buffers: Buffers | None) -> Subtask:
        """Of the kind that the configuration needs."""
        configuration = self.configuration
        every, timeout_ms = configuration.checkpoint_every_batches, configuration.aligned_checkpoint_timeout
        aligned = configuration.checkpointing_mode is CheckpointingMode.EXACTLY_ONCE
        if buffers is not None:
            return BufferedSubtask(plan, buffers, timeout_ms=timeout_ms, aligned=aligned, barrier_every=every)
        if configuration.unaligned:
            return UnalignedSubtask(plan, timeout_ms=timeout_ms, barrier_every=every)
        return Subtask(plan, aligned=aligned, barrier_every=every)

    @property
    def widest(self) -> Plan:
        """The plan with every actor of the job. Ids are the same in both plans: only the last vertex differs."""
        return max(self.plan, self.later or self.plan, key=lambda plan: len(plan.subtasks))

    def plan_after(self, record: CheckpointRecord | None, *, former: Plan, restarted: bool = False) -> Plan:
        """`former`: of the generation before, if this process ran it. `restarted`: this is not the first generation."""
        if restarted and self.again is not None:
            return self.again
        if record is None or self.later is None:
            return self.plan
        was_other = self.later.parallelism in (former.parallelism, record.parallelism)
        return self.plan if self.there_and_back and was_other else self.later

    def latencies_after(self, seed: int, *, restarted: bool, order: str = IN_ORDER) -> Latencies:
        """Where batches are cut in another way, every latency is another, too."""
        return self.latencies(seed + 1 if restarted and self.again is not None else seed, order=order)

    def latencies(self, seed: int, *, order: str = IN_ORDER) -> Latencies:
        """`order`: as a schedule writes it."""
        made = self._latencies.get((seed, order))
        if made is None:
            made = self.timing.latencies(self.widest, seed=seed)
            if order != IN_ORDER:
                made = made.turned(order.split("+"), [subtask.id for subtask in self.widest.subtasks if subtask.sink])
            self._latencies[seed, order] = made
        return made
