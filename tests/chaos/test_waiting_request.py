"""A request that is held goes on when another program sends the same bytes, and once."""

from __future__ import annotations

from sinkproof.chaos.system_calls.waiting_request import WaitingRequest


def test_it_goes_on_when_the_same_bytes_are_sent_and_once() -> None:
    held, went_on = WaitingRequest(), list[str]()
    held.hold(b"INSERT", go_on=lambda: went_on.append("INSERT"))
    assert held.waits
    held.meet(b"BEGIN")
    assert held.waits
    assert [] == went_on
    held.meet(b"INSERT")
    held.meet(b"INSERT")
    assert ["INSERT"] == went_on
    assert not held.waits


def test_what_cannot_be_read_meets_nothing() -> None:
    held = WaitingRequest()
    held.hold(b"", go_on=lambda: None)
    assert not held.waits
