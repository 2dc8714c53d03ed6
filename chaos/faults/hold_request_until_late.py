"""The connection is lost, and the request that was on it is carried out after the client has repeated it.

Healed by transaction names, ids and epochs that are never reused: a late end must not end a later transaction.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "hold"
SENTENCE = "late request: a request to the broker takes effect after its client has repeated it"
NEEDS = "services"
MESSAGES = ("end_txn.request",)


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def inject(shell: object) -> None:
    """No shell injects it: the proxy does (message_proxy.py)."""
