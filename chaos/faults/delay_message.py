"""A message between a sink and its broker arrives later than our own clients wait for it.

Healed by patience, or by asking again and being answered twice.
"""

from sinkproof.chaos.messages.message_points import applies_to

KIND = "delay"
SENTENCE = "a message to or from the broker arrives late"
NEEDS = "services"
MESSAGES = ("request", "reply")


def applies(actor: str, point: str) -> bool:
    return applies_to(actor, point, MESSAGES)


def strike(shell: object) -> None:
    """The proxy does it (message_proxy.py), which stands where the message is."""
