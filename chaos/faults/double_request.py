"""A request is carried out twice, as by a retry after a lost reply.

Healed by the broker where the request carries its own identity. Only for requests that clients repeat.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "double"
SENTENCE = "duplicate request: a request to the broker is carried out twice"
NEEDS = "services"
MESSAGES = ("end_txn.request", "add_partitions.request")


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def inject(shell: object) -> None:
    """No shell injects it: the proxy does (message_proxy.py)."""
