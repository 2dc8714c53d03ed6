"""A message between a sink and its broker is lost, and the connection with it.

Healed by a repeated request: a lost reply belongs to a request that was carried out.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "drop"
SENTENCE = "lost message: a message to or from the broker is lost, and its connection with it"
NEEDS = "services"
MESSAGES = ("request", "reply")


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def inject(shell: object) -> None:
    """No shell injects it: the proxy does (message_proxy.py)."""
