"""Which faults exist, where can each be injected, and what heals it?

A kind is a module (type `FaultKind`) with KIND (its word in schedules), SENTENCE (shown to users), `applies(actor,
point)` and `inject(shell)`. The shell calls `inject` at the point, in the actor; it may raise, or not return. Optional:
NEEDS (member of the contract without which the kind is never injected); VIRTUAL (only a simulated engine can do it: the
process shell injects it at the coordinator's points and around calls, Spark nowhere); SUSPENDS (an attempt that is a
process is suspended by SIGSTOP while `inject` runs outside of it). May import: chaos only.
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

    def inject(self, shell: Any) -> None: ...


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
    """The member that a contract must have for this kind to be injected; "": none."""
    return str(getattr(KINDS[kind], "NEEDS", ""))


def suspends(kind: str) -> bool:
    return bool(getattr(KINDS[kind], "SUSPENDS", False))


def is_virtual(kind: str) -> bool:
    return bool(getattr(KINDS[kind], "VIRTUAL", False))
