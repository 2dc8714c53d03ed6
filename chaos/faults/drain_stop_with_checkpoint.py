"""The job is stopped with a final checkpoint in the middle of its input, and later restored from that checkpoint."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell

DRAIN = FaultKind[VirtualShell](
    "drain",
    "stop-with-savepoint: the job is stopped with a checkpoint, and started again from it",
    applies=lambda actor, point: actor == "coordinator" and point.startswith("checkpoint."),
    inject=lambda shell: shell.drain_job(),
    is_virtual=True,
)
