"""The connection is lost, and the request that was on it is carried out after the client has repeated it.

Healed by transaction names, ids and epochs that are never reused: a late end must not end a later transaction.
"""

from sinkproof.chaos.faults.fault_kind import message_fault

HOLD = message_fault(
    "hold",
    "late request: a request to the broker takes effect after its client has repeated it",
    "end_txn.request",
)
