"""Two coordinators: one stops, another is elected, and then the first goes on with the decision that it was about to
take or to tell. Healed by the checkpoint storage, which refuses it, and by generations.
"""

from sinkproof.chaos.faults.fault_target import VirtualShell

KIND = "depose"
SENTENCE = "the coordinator stops, another one is elected, and later the old one goes on"
VIRTUAL = True


def applies(actor: str, point: str) -> bool:
    """Not at `generation`: an old coordinator that goes on there is simply elected again."""
    return actor == "coordinator" and point.startswith("checkpoint.")


def strike(shell: VirtualShell) -> None:
    shell.depose()
