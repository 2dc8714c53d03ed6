"""A message between a sink and its broker arrives after the request timeout of our own clients.

Healed by waiting, or by a repeated request that is answered twice.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "delay"
SENTENCE = "delayed message: a message to or from the broker arrives after the client has timed out"
NEEDS = "services"
MESSAGES = ("request", "reply")


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def inject(shell: object) -> None:
    """No shell injects it: the proxy does (message_proxy.py)."""
