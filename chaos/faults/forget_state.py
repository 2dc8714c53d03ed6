"""The job dies and begins anew without any state, on a target that has its rows. Ids and generations go on growing.

Nothing heals it: all rows are read again. Repeats are allowed then, loss is not.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "forget"
SENTENCE = "every process is killed, and the job begins anew from no checkpoint at all"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    return True


def strike(shell: VirtualShell) -> None:
    shell.rewind_job(to_nothing=True)
