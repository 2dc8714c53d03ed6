"""A request is carried out twice, as by a retry after a lost reply.

Healed by the broker where the request carries its own identity. Only for requests that clients repeat.
"""

from sinkproof.chaos.faults.fault_kind import message_fault

DOUBLE = message_fault(
    "double",
    "duplicate request: a request to the broker is carried out twice",
    "end_txn.request",
    "add_partitions.request",
)
