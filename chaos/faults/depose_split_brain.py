"""Split brain: a coordinator is suspended, another is elected, and then the first one resumes with its old decision.

Healed by the checkpoint storage, which refuses that decision, and by generations.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "depose"
SENTENCE = "split brain: the coordinator is suspended, another one is elected, and later the old one resumes"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    """Not at `generation`: an old coordinator that resumes there is simply elected again."""
    return actor == "coordinator" and point.startswith("checkpoint.")


def inject(shell: VirtualShell) -> None:
    shell.depose()
