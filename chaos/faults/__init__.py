"""Fault kinds, one a file: what it does, where it can strike, what heals it.

A kind is a module with KIND (its word in schedules), SENTENCE (for people), `applies(actor, point)` and
`strike(shell)`. The shell that calls `strike` stands at the point, in the struck actor; `strike` may raise, and may
not return. A kind may also say

    NEEDS     the method or attribute of the contract without which it is never injected
    VIRTUAL   True: the engine must be simulated. In the process shell it strikes where the engine itself stands, that
              is at the coordinator's points and around calls, and on Spark nowhere

    SLEEPS    True: an attempt that is a process stands still (SIGSTOP) while `strike` is at work outside of it

What is still promised after a kind has struck stands in harness/judging/fault_allowances.py.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from sinkproof.chaos.faults import cancel_job as cancel
from sinkproof.chaos.faults import decline_vote as decline
from sinkproof.chaos.faults import delay_message as delay
from sinkproof.chaos.faults import depose_split_brain as depose
from sinkproof.chaos.faults import double_request as double
from sinkproof.chaos.faults import drain_stop_with_checkpoint as drain
from sinkproof.chaos.faults import drop_message as drop
from sinkproof.chaos.faults import error_from_target as error
from sinkproof.chaos.faults import expire_time_limit as expire
from sinkproof.chaos.faults import fail_repeatedly as fail
from sinkproof.chaos.faults import forget_state as forget
from sinkproof.chaos.faults import hold_request_until_late as hold
from sinkproof.chaos.faults import kill_attempt as kill
from sinkproof.chaos.faults import (
    kill_executor,
    kill_job,
    kill_worker,
    lose_power,
    service_kill,
    service_pause,
    service_stop,
)
from sinkproof.chaos.faults import land_late_write as land
from sinkproof.chaos.faults import late_notification as late
from sinkproof.chaos.faults import lose_notification as lose
from sinkproof.chaos.faults import lose_power_torn_bytes as lose_bytes
from sinkproof.chaos.faults import lose_power_unsynced_names as lose_names
from sinkproof.chaos.faults import maintain_target as maintain
from sinkproof.chaos.faults import network_failure as network
from sinkproof.chaos.faults import pause_briefly as pause
from sinkproof.chaos.faults import repeat_notification as repeat
from sinkproof.chaos.faults import rewind_to_older_checkpoint as rewind
from sinkproof.chaos.faults import stop_zombie as stop
from sinkproof.chaos.faults import unanswered_call as unanswered


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
