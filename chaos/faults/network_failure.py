"""The network between the sink and the external system fails, in one way and one direction (toxics.py).

Heals by itself. A lost request was never carried out; a lost reply belongs to a request that was; a delayed message
arrives after its client has timed out.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.points import COMMIT_WINDOW


@dataclass(slots=True)
class NetworkFault:
    """One fault kind for each toxic and direction."""

    KIND: str
    SENTENCE: str
    applies: Callable[[str, str], bool]
    inject: Callable[[VirtualShell], None]
    NEEDS: str = "services"
    SUSPENDS: bool = True


def _kind(word: str, sentence: str) -> NetworkFault:
    return NetworkFault(
        KIND=word,
        SENTENCE=f"{sentence}, from here on for a while",
        applies=lambda actor, point: point in COMMIT_WINDOW,
        inject=lambda shell: shell.break_service(word),
    )


NETWORK: tuple[NetworkFault, ...] = tuple(_kind(word, toxic.sentence) for word, toxic in TOXICS.items())
