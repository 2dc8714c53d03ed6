"""The process of an attempt is asked to end by SIGTERM, as cluster and service managers do, and dies afterwards.

Healed by the next generation. What the sink has for that moment runs: its handler, `finally`, functions for the end.
"""

from functools import partial
from typing import Final

from sinkproof.chaos.faults.fault_kind import PROCESSES, FaultKind
from sinkproof.chaos.faults.fault_target import VirtualShell
from sinkproof.chaos.points import is_system_call

CALLS_LATER: Final = 8  # two batches, a vote and its notification: a handler may only have noted that the end is near


WITHIN_NATIVE_CODE: Final = ("file.change_rows", "file.commit")  # Python calls no handler before SQLite has returned


def of_sinks(actor: str, point: str) -> bool:
    return actor.startswith("sink[") and not is_system_call(point) and point not in WITHIN_NATIVE_CODE


def terminate(shell: VirtualShell, *, calls: int) -> None:
    shell.terminate_actor(calls=calls)


TERMINATE = FaultKind[VirtualShell](
    "terminate",
    "orderly end: the process gets SIGTERM, and is killed when its handler has returned, if that has not ended it",
    applies=of_sinks,
    inject=partial(terminate, calls=0),
    needs=PROCESSES,
)
TERMINATE_LATER = FaultKind[VirtualShell](
    "terminate-later",
    "slow orderly end: the process gets SIGTERM, goes on while it can, and is killed eight calls later",
    applies=of_sinks,
    inject=partial(terminate, calls=CALLS_LATER),
    needs=PROCESSES,
)
CALLS_LEFT: Final = {TERMINATE.word: 0, TERMINATE_LATER.word: CALLS_LATER}  # kind -> how many it may answer after it
