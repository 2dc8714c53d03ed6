"""Process pause: one sink attempt is suspended for less than the failure detector's timeout; the others run meanwhile.

Needs no healing. Two subtasks of a sink run concurrently, and each may find the other one's work half done.
"""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "pause"
SENTENCE = "process pause: this process is suspended for a moment while the others run; it is not replaced"
SUSPENDS = True


def applies(actor: str, point: str) -> bool:
    return actor.startswith("sink[")


def inject(shell: FaultableShell) -> None:
    shell.pause_actor()
