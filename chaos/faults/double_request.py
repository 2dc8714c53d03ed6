"""A request is carried out twice, as after a retry whose first answer was lost.

Healed by the broker, as far as the request says which one it is. Only for requests that clients repeat.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "double"
SENTENCE = "a request to the broker is carried out twice"
NEEDS = "services"
MESSAGES = ("end_txn.request", "add_partitions.request")


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def strike(shell: object) -> None:
    """The proxy does it (message_proxy.py), which stands where the message is."""
