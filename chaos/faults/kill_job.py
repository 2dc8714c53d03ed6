"""Every process of the job dies at once. Healed by a new job that restores the last complete checkpoint."""

from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.fault_target import FaultableShell

KILL_JOB = FaultKind[FaultableShell](
    "kill-job",
    "job crash: every process of the job is killed at once",
    inject=lambda shell: shell.kill_job(),
)
