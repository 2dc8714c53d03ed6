"""The job dies and is restored from the complete checkpoint before the last one.

Checkpoint ids and generations continue to grow. Nothing heals it: rows of the last checkpoint are read again. Repeats
are allowed then, loss is not.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "rewind"
SENTENCE = "rollback: every process is killed, and the job is restored from an older checkpoint than the last"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.rewind_job(to_nothing=False)
