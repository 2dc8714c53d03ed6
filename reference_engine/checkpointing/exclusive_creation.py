"""Does a store keep the promise that fencing rests on? Of two creations of one object exactly one may succeed.

A store, or a driver, that ignores the condition of a request lets two coordinators decide, and nothing would say so.
So a coordinator tries the store before it relies on it, and refuses it in words. What is tried: a creation after
another, creations at once, and that a reader then sees what the winner wrote. A store that looks first and writes then
is caught only by chance: no trial can prove that there is no such moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from sinkproof.reference_engine.checkpointing.object_store import ObjectStore, UnfitStore

FOLDER: Final = "probe"
RIVALS: Final = 4
ROUNDS: Final = 2  # of creations at once


def refuse_unfit_store(store: ObjectStore, *, generation: int) -> None:
    """Raises UnfitStore. The objects bear the own generation, which no other claimant has in a store that is fit.

    Nothing else may remove them, not even after a death that left them: a newer claimant that did would make this trial
    fail.
    """
    names = [f"{FOLDER}/{generation}-{number}" for number in range(ROUNDS + 1)]
    try:
        won = [store.create(names[0], _data(rival)) for rival in range(2)]
        _judge(store, names[0], won, how="one after the other")
        with ThreadPoolExecutor(RIVALS) as pool:
            for name in names[1:]:
                _judge(store, name, _at_once(store, name, pool), how="at once")
    finally:
        store.delete(names)


def _at_once(store: ObjectStore, name: str, pool: ThreadPoolExecutor) -> list[bool]:
    together = Barrier(RIVALS)

    def create(rival: int) -> bool:
        together.wait()
        return store.create(name, _data(rival))

    return list(pool.map(create, range(RIVALS)))


def _data(rival: int) -> bytes:
    return f"creation {rival + 1}".encode()


def _judge(store: ObjectStore, name: str, won: Sequence[bool], *, how: str) -> None:
    winners = [rival for rival, is_winner in enumerate(won) if is_winner]
    if len(winners) != 1:
        raise _unfit(store, f"of {len(won)} creations of {name}, {how}, {len(winners) or 'none'} succeeded, not 1")
    if (read := store.read(name)) != _data(winners[0]):
        raise _unfit(store, f"creation {winners[0] + 1} of {name} succeeded, and a reader found {read[:40]!r}")


def _unfit(store: ObjectStore, evidence: str) -> UnfitStore:
    return UnfitStore(
        f"{store.url} cannot keep checkpoints: {evidence}. Two coordinators could both decide there, and rows would be "
        "lost or repeated. Name a store that honours conditional creation (S3: PUT with If-None-Match), update this "
        "one, or name a folder"
    )
