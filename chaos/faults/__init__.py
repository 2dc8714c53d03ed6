"""Which faults exist, where can each be injected, and what heals it?

One `FaultKind` (fault_kind.py) a module, and its docstring says what heals it. Other packages register theirs by the
entry point `sinkproof.faults`. May import: chaos only.
"""

from __future__ import annotations

from typing import Any, Final

from sinkproof.chaos.entry_points import FAULTS, load_registered
from sinkproof.chaos.faults.black_hole import BLACK_HOLE
from sinkproof.chaos.faults.cancel_job import CANCEL
from sinkproof.chaos.faults.clock_jump import CLOCK_BACK, CLOCK_FORWARD
from sinkproof.chaos.faults.connection_closed import CLOSED
from sinkproof.chaos.faults.decline_vote import DECLINE
from sinkproof.chaos.faults.delay_message import DELAY
from sinkproof.chaos.faults.depose_split_brain import DEPOSE
from sinkproof.chaos.faults.double_request import DOUBLE
from sinkproof.chaos.faults.drain_stop_with_checkpoint import DRAIN
from sinkproof.chaos.faults.drop_message import DROP
from sinkproof.chaos.faults.error_from_target import ERROR
from sinkproof.chaos.faults.expire_time_limit import EXPIRE
from sinkproof.chaos.faults.fail_repeatedly import FAIL
from sinkproof.chaos.faults.fault_kind import FaultKind
from sinkproof.chaos.faults.faults_of_hosts import OF_HOSTS
from sinkproof.chaos.faults.forget_state import FORGET
from sinkproof.chaos.faults.hang_until_killed import HANG
from sinkproof.chaos.faults.hold_request_until_late import HOLD
from sinkproof.chaos.faults.items_rejected import ITEMS_REJECTED
from sinkproof.chaos.faults.kill_attempt import KILL
from sinkproof.chaos.faults.kill_executor import KILL_EXECUTOR
from sinkproof.chaos.faults.kill_halfway import KILL_HALFWAY
from sinkproof.chaos.faults.kill_job import KILL_JOB
from sinkproof.chaos.faults.kill_program import KILL_PROGRAM
from sinkproof.chaos.faults.kill_sender import KILL_SENDER
from sinkproof.chaos.faults.kill_worker import KILL_WORKER
from sinkproof.chaos.faults.land_late_write import LAND
from sinkproof.chaos.faults.late_notification import LATE
from sinkproof.chaos.faults.late_reply import LATE_REPLY
from sinkproof.chaos.faults.lock_timeout import LOCK_TIMEOUT
from sinkproof.chaos.faults.lose_notification import LOSE
from sinkproof.chaos.faults.lose_power import LOSE_POWER
from sinkproof.chaos.faults.lose_power_newest_file import LOSE_NEWEST
from sinkproof.chaos.faults.lose_power_older_files import LOSE_OLDER
from sinkproof.chaos.faults.lose_power_torn_bytes import LOSE_BYTES
from sinkproof.chaos.faults.lose_power_torn_tails import LOSE_TAILS
from sinkproof.chaos.faults.lose_power_unsynced_names import LOSE_NAMES
from sinkproof.chaos.faults.maintain_target import MAINTAIN
from sinkproof.chaos.faults.meet_requests import MEET
from sinkproof.chaos.faults.network_failure import NETWORK
from sinkproof.chaos.faults.overlap_requests import OVERLAP
from sinkproof.chaos.faults.pause_briefly import PAUSE
from sinkproof.chaos.faults.refused_statement import REFUSED_STATEMENT
from sinkproof.chaos.faults.repeat_notification import REPEAT
from sinkproof.chaos.faults.reply_cut import REPLY_CUT
from sinkproof.chaos.faults.request_delayed import REQUEST_DELAYED
from sinkproof.chaos.faults.rewind_to_older_checkpoint import REWIND
from sinkproof.chaos.faults.service_bad_gateway import BAD_GATEWAY
from sinkproof.chaos.faults.service_gateway_timeout import GATEWAY_TIMEOUT
from sinkproof.chaos.faults.service_kill import SERVICE_KILL
from sinkproof.chaos.faults.service_pause import SERVICE_PAUSE
from sinkproof.chaos.faults.service_stop import SERVICE_STOP
from sinkproof.chaos.faults.service_throttles import THROTTLED
from sinkproof.chaos.faults.service_unavailable import UNAVAILABLE
from sinkproof.chaos.faults.short_write import SHORT_WRITE
from sinkproof.chaos.faults.silent_service import SILENT
from sinkproof.chaos.faults.some_rejected import SOME_REJECTED
from sinkproof.chaos.faults.stop_zombie import STOP
from sinkproof.chaos.faults.terminate_attempt import TERMINATE, TERMINATE_LATER
from sinkproof.chaos.faults.unanswered_call import UNANSWERED

OWN_KINDS: Final[tuple[FaultKind[Any], ...]] = (
    *(KILL_JOB, KILL, KILL_HALFWAY, KILL_WORKER, KILL_EXECUTOR, TERMINATE, TERMINATE_LATER),
    *(STOP, HANG, OVERLAP, MEET, PAUSE),
    *(ERROR, UNANSWERED, UNAVAILABLE, THROTTLED, GATEWAY_TIMEOUT, BAD_GATEWAY, ITEMS_REJECTED, SOME_REJECTED),
    *(LATE_REPLY, REPLY_CUT, REQUEST_DELAYED, CLOSED),
    *(SILENT, BLACK_HOLE, REFUSED_STATEMENT, LOCK_TIMEOUT, SHORT_WRITE, KILL_PROGRAM, LOSE, DECLINE),
    *(LATE, REPEAT, LAND, FAIL, DEPOSE, CANCEL, DRAIN, REWIND, FORGET),
    *(CLOCK_FORWARD, CLOCK_BACK, EXPIRE, MAINTAIN, LOSE_POWER, LOSE_BYTES, LOSE_NAMES),
    *(LOSE_TAILS, LOSE_NEWEST, LOSE_OLDER),
    *(SERVICE_KILL, SERVICE_STOP, SERVICE_PAUSE),
    *NETWORK,
    *(DROP, DELAY, DOUBLE, HOLD, KILL_SENDER),
    *OF_HOSTS,
)
REGISTERED_KINDS: Final = load_registered(FAULTS, FaultKind, name_in="word", taken={kind.word for kind in OWN_KINDS})
EVERY_KIND: Final = (*OWN_KINDS, *REGISTERED_KINDS)
KINDS: Final[dict[str, FaultKind[Any]]] = {kind.word: kind for kind in EVERY_KIND}
POWER_LOSSES: Final = tuple(kind.word for kind in OWN_KINDS if kind.is_power_loss)
