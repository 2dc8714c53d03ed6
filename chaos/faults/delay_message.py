"""A message between a sink and its broker arrives after the request timeout of our own clients.

Healed by waiting, or by a repeated request that is answered twice.
"""

from sinkproof.chaos.faults.fault_kind import message_fault

DELAY = message_fault(
    "delay",
    "delayed message: a message to or from the broker arrives after the client has timed out",
    "request",
    "reply",
)
