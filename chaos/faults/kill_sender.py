"""The process that has sent a request to the broker dies by SIGKILL, before the request arrives, or before the reply
does, when it was carried out.

Clients in native code send several messages within one call, so that no line and no step lies between them: rows of a
transaction are at the broker, and the request to commit it is not. Healed by transaction ids that the next attempt
takes over, and by readers of marks that leave out what is not committed.
"""

from sinkproof.chaos.faults.fault_kind import message_fault

KILL_SENDER = message_fault(
    "kill-sender",
    "sender killed: the process that has sent a request to the broker dies before it arrives, or before the reply does",
    "request",
    "reply",
)
