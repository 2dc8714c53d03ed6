"""A message between a sink and its broker is lost, and the connection with it.

Healed by a repeated request: a lost reply belongs to a request that was carried out.
"""

from sinkproof.chaos.faults.fault_kind import message_fault

DROP = message_fault(
    "drop",
    "lost message: a message to or from the broker is lost, and its connection with it",
    "request",
    "reply",
)
