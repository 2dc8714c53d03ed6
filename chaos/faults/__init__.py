"""Fault kinds, one a file: what it does, where it can strike, what heals it.

A kind is a module with KIND (its word in schedules), SENTENCE (for people), `applies(actor, point)` and
`strike(shell)`. The shell that calls `strike` stands at the point, in the struck actor; `strike` may raise, and may
not return. A kind may also say

    NEEDS     the method or attribute of the contract without which it is never injected
    VIRTUAL   True: the engine must be simulated. In the process shell it strikes where the engine itself stands, that
              is at the coordinator's points and around calls, and on Spark nowhere

    SLEEPS    True: an attempt that is a process stands still (SIGSTOP) while `strike` is at work outside of it

What is still promised after a kind has struck stands in harness/promises.py.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from sinkproof.chaos.faults import (
    cancel,
    decline,
    delay,
    depose,
    double,
    drain,
    drop,
    error,
    expire,
    fail,
    forget,
    hold,
    kill,
    kill_executor,
    kill_job,
    kill_worker,
    land,
    late,
    lose,
    lose_bytes,
    lose_names,
    lose_power,
    maintain,
    network,
    pause,
    repeat,
    rewind,
    service_kill,
    service_pause,
    service_stop,
    stop,
    unanswered,
)


class FaultKind(Protocol):
    KIND: str
    SENTENCE: str

    def applies(self, actor: str, point: str) -> bool: ...

    def strike(self, shell: Any) -> None: ...


MODULES: Final[tuple[FaultKind, ...]] = (
    *(kill_job, kill, kill_worker, kill_executor, stop, pause, error, unanswered, lose, decline),
    *(late, repeat, land, fail, depose, cancel, drain, rewind, forget),
    *(expire, maintain, lose_power, lose_bytes, lose_names),
    *(service_kill, service_stop, service_pause),
    *network.NETWORK,
    *(drop, delay, double, hold),
)
KINDS: Final[dict[str, FaultKind]] = {kind.KIND: kind for kind in MODULES}


def needs(kind: str) -> str:
    """What a contract must offer for this kind to be injected; "": nothing."""
    return str(getattr(KINDS[kind], "NEEDS", ""))


def sleeps(kind: str) -> bool:
    return bool(getattr(KINDS[kind], "SLEEPS", False))


def is_virtual(kind: str) -> bool:
    return bool(getattr(KINDS[kind], "VIRTUAL", False))
