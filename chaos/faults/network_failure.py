"""The network between the sink and the external system breaks, in one way and one direction (chaos/faults/toxics.py).

Healed by itself in a while. A request that is lost was never carried out, a reply that is lost belongs to one that was;
and what is late arrives after its sender has given up.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.points import COMMIT_WINDOW


@dataclass(slots=True)
class NetworkFault:
    """One kind for each toxic and direction: they differ in nothing but that."""

    KIND: str
    SENTENCE: str
    applies: Callable[[str, str], bool]
    strike: Callable[[VirtualShell], None]
    NEEDS: str = "services"
    SLEEPS: bool = True


def _kind(word: str, sentence: str) -> NetworkFault:
    return NetworkFault(
        KIND=word,
        SENTENCE=f"{sentence}, from here on for a while",
        applies=lambda actor, point: point in COMMIT_WINDOW,
        strike=lambda shell: shell.break_service(word),
    )


NETWORK: tuple[NetworkFault, ...] = tuple(_kind(word, toxic.sentence) for word, toxic in TOXICS.items())
