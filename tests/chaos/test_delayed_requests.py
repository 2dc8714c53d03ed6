"""A reply that ends too early, and a request that arrives after later ones."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from sinkproof.chaos.requests.delayed_requests import HELD_BACK, NEXT, ON_ITS_WAY
from sinkproof.chaos.requests.socket_points import OTHER_ENDS, BadGateway, ReplyCut, RequestDelayed, socket_points

from ..support.served_puts import LISTED, served_puts

Served = tuple[int, list[tuple[str, bytes]]]


@pytest.fixture
def served() -> Iterator[Served]:
    with served_puts() as made:
        yield made
    ON_ITS_WAY.clear()
    while OTHER_ENDS:
        OTHER_ENDS.pop().close()


def at_first(error: type[OSError]) -> Callable[[str], None]:
    """What this thread sends first."""
    mine, left = threading.get_ident(), [error("injected")]

    def reach(_: str) -> None:
        if threading.get_ident() == mine and left:
            raise left.pop()

    return reach


def ask(port: int, method: str, *, body: bytes | None = None, timeout: float | None = 600) -> bytes:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request(method, "/parts", body)
        with connection.getresponse() as response:
            return b"%d " % response.status + response.read()


def test_half_of_a_reply_comes_and_the_request_was_carried_out(served: Served) -> None:
    port, put = served
    with socket_points(at_first(ReplyCut)), closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/parts")
        with connection.getresponse() as response:
            assert [b"one\n", b"two\n", b"t"] == list(response)
    with socket_points(at_first(ReplyCut)), pytest.raises(http.client.IncompleteRead):
        ask(port, "PUT", body=b"rows")
    assert [b"rows"] == [body for _, body in put]


def test_a_gateway_that_has_lost_the_service_says_so_after_the_request(served: Served) -> None:
    port, put = served
    with socket_points(at_first(BadGateway)):
        assert b"502 bad gateway\n" == ask(port, "PUT", body=b"rows")
    assert [b"rows"] == [body for _, body in put]


def test_a_delayed_request_arrives_after_two_later_ones_and_a_repetition_is_none(
    served: Served,
) -> None:
    port, put = served
    with socket_points(at_first(RequestDelayed)):
        with pytest.raises(TimeoutError):
            ask(port, "PUT", body=b"1")
        for body in (b"1", b"two", b"three"):
            assert b"200 put" == ask(port, "PUT", body=body)
            assert LISTED in ask(port, "GET")
        assert b"200 put" == ask(port, "PUT", body=b"fourth")
    assert [b"1", b"two", b"three", b"1", b"fourth"] == [body for _, body in put]
    assert (0, 0, 0) == (len(HELD_BACK), len(ON_ITS_WAY), len(NEXT))


@pytest.mark.parametrize(("method", "timeout"), [("GET", 600.0), ("PUT", None)])
def test_what_changes_nothing_or_would_be_awaited_forever_is_not_delayed(
    method: str, timeout: float | None, served: Served
) -> None:
    port, put = served
    with socket_points(at_first(RequestDelayed)):
        assert ask(port, method, body=b"rows" if method == "PUT" else None, timeout=timeout).startswith(b"200 ")
    assert [b"rows"] * (method == "PUT") == [body for _, body in put]
