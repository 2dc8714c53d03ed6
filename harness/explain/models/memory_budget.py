"""Computes a worker's memory parts, and the credits that follow from them, as in Flink's memory model, in MiB.

    process = metaspace + overhead + flink          overhead: a tenth of the process, from 192 to 1,024
    flink   = framework + network + managed + user  network: a tenth of flink, from 64 to 1,024; managed: four tenths
    reserve = metaspace + overhead + framework      not available to slots

The user's share is the rest. Network, managed and user memory are divided among the worker's slots. The network
share is cut into segments of 32 KiB, and each of them is one buffer: as many credits can be out at once as there are
segments for input, and a job with channels that need more is refused before it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sinkproof.reference_engine.dataflow.flow_control import Buffers
from sinkproof.reference_engine.dataflow.job_graph import SubtaskPlan

SEGMENT_KIB: Final = 32
METASPACE_MIB: Final = 256.0
OVERHEAD: Final = (0.1, 192.0, 1024.0)  # share, least, most
FRAMEWORK_MIB: Final = 128.0 + 128.0  # on the heap, off the heap
NETWORK: Final = (0.1, 64.0, 1024.0)
MANAGED: Final = 0.4


class BudgetError(ValueError):
    """A worker that is too small; the message says for what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Of a worker, in MiB. The four parts add up to the process."""

    process: float
    slots: int
    metaspace: float
    overhead: float
    framework: float
    network: float
    managed: float
    user: float

    @property
    def reserve(self) -> float:
        return self.metaspace + self.overhead + self.framework

    @property
    def flink(self) -> float:
        return self.process - self.metaspace - self.overhead

    @property
    def slot(self) -> dict[str, float]:
        """The share of one slot."""
        return {name: getattr(self, name) / self.slots for name in ("network", "managed", "user")}

    @property
    def segments(self) -> int:
        """Network buffers of one slot."""
        return int(self.slot["network"] * 1024 // SEGMENT_KIB)


def budget_of(process_mib: float, *, slots: int = 1) -> MemoryBudget:
    if slots < 1:
        raise BudgetError(f"a worker with {slots} slots cannot run a subtask")
    overhead = _share(process_mib, OVERHEAD)
    flink = process_mib - METASPACE_MIB - overhead
    network, managed = _share(flink, NETWORK), MANAGED * flink
    user = flink - FRAMEWORK_MIB - network - managed
    if user <= 0:
        raise BudgetError(
            f"a worker of {process_mib:g} MiB has nothing left for the user: {METASPACE_MIB:g} metaspace, {overhead:g} "
            f"overhead, {FRAMEWORK_MIB:g} framework, {network:g} network, {managed:g} managed; give it more"
        )
    return MemoryBudget(
        process=process_mib,
        slots=slots,
        metaspace=METASPACE_MIB,
        overhead=overhead,
        framework=FRAMEWORK_MIB,
        network=network,
        managed=managed,
        user=user,
    )


def _share(total: float, rule: tuple[float, float, float]) -> float:
    share, least, most = rule
    return min(max(share * total, least), most)


def buffers_wanted(subtask: SubtaskPlan, buffers: Buffers) -> int:
    """Batches that this subtask holds at most: credits that it grants, and queues to those below."""
    granted = len(subtask.inputs) * buffers.exclusive + (buffers.floating if subtask.inputs else 0)
    return granted + len(subtask.receivers) * buffers.queued


def refuse_too_small(budget: MemoryBudget, subtask: SubtaskPlan, buffers: Buffers) -> None:
    """Flink's "insufficient number of network buffers", with the sum."""
    wanted = buffers_wanted(subtask, buffers)
    if wanted > budget.segments:
        raise BudgetError(
            f"{subtask.name} wants {wanted} buffers ({len(subtask.inputs)} channels in with {buffers.exclusive} each, "
            f"{buffers.floating} floating, {len(subtask.receivers)} out with {buffers.queued} each), and a slot has "
            f"{budget.segments} of {SEGMENT_KIB} KiB: give the worker more memory, fewer slots, or the job less "
            "parallelism"
        )


def buffers_of(budget: MemoryBudget, subtask: SubtaskPlan, *, floating: int = 8) -> Buffers:
    """The most credits that the budget allows a subtask: the exclusive buffers of each channel, all alike."""
    ends = len(subtask.inputs) + len(subtask.receivers)
    exclusive = (budget.segments - floating) // ends if ends else 1
    if exclusive < 1:
        refuse_too_small(budget, subtask, Buffers(exclusive=1, floating=floating, queued=1))
    return Buffers(exclusive=exclusive, floating=floating, queued=exclusive)
