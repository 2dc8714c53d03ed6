"""What the watch of system calls does at the armed place."""

from __future__ import annotations

import enum
from typing import Final

from sinkproof.chaos.system_calls.carried_out import (
    half_written,
    sent_and_deaf,
    sent_in_vain,
    sent_to_be_refused,
    sent_to_time_out,
    swallowed,
)


class Act(enum.Enum):
    """What happens at the armed place."""

    KILL = "the program dies, and the call is never carried out"
    KILL_CALLER = "the process that makes the call dies, if the program watched has started it; else as KILL"
    KILL_HALFWAY = "half of the bytes are sent, and the program dies"
    HOLD = "the call waits until the owner of the watch lets it go on"
    OVERLAP = "the same, or until another program that is watched sends the same bytes"
    MEET = "the same, or until another program that is watched sends anything"
    FAIL = "the call fails, and is not carried out; the connection of a socket is lost"
    LOSE_REPLY = "the call is carried out, and fails all the same; or its bytes are sent, and no reply is received"
    SILENCE = "its bytes are sent, and nothing comes back, nor does the connection end"
    SWALLOW = "its bytes are lost, with all that this connection sends later, and it does not end"
    REFUSE = "other bytes are sent, by which the server of a database refuses the statement; or a reply comes, of HTTP"
    TIME_OUT = "the same, as it has waited too long for a lock"
    CUT = "half of the bytes are written, and the call says so"


INSTEAD: Final = {  # how what is sent is carried out in the place of the program
    Act.CUT: half_written,
    Act.SILENCE: sent_in_vain,
    Act.SWALLOW: swallowed,
    Act.REFUSE: sent_to_be_refused,
    Act.TIME_OUT: sent_to_time_out,
    Act.LOSE_REPLY: sent_and_deaf,
}
