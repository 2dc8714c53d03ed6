"""The connection is lost, and the request that was on it is carried out later, when its sender has long asked again.

Healed by names, ids and epochs that mean one thing only: a late end must not end a later transaction.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "hold"
SENTENCE = "a request to the broker lands late, after it was asked again"
NEEDS = "services"
MESSAGES = ("end_txn.request",)


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def strike(shell: object) -> None:
    """The proxy does it (message_proxy.py), which stands where the message is."""
