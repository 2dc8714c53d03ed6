"""State loss: the job dies and starts again without any checkpoint, on a target that has its rows.

Checkpoint ids and generations continue to grow. Nothing heals it: all rows are read again. Repeats are allowed then,
loss is not.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "forget"
SENTENCE = "state loss: every process is killed, and the job starts again without any checkpoint"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def inject(shell: VirtualShell) -> None:
    shell.rewind_job(to_nothing=True)
