"""Servers of the standard library that `setup` starts end at once, and hand over whole requests only."""

from __future__ import annotations

import inspect
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.subject.contract import Contract
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.servers_of_contracts import LOOKS_EVERY_SECONDS, WHOLE, BodyBefore, prepare_servers

Stored = list[tuple[str, bytes]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Stored]]:
    """Its port, and what its handlers were given; a handler looks at no length."""
    monkeypatch.setattr(BaseHTTPRequestHandler, "parse_request", BaseHTTPRequestHandler.parse_request)
    monkeypatch.setattr(BaseHTTPRequestHandler, WHOLE, True, raising=False)
    monkeypatch.delattr(BaseHTTPRequestHandler, WHOLE)
    stored: Stored = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            stored.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing."""

    prepare_servers()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as started:
        thread = threading.Thread(target=started.serve_forever)
        thread.start()
        yield started.server_port, stored
        started.shutdown()
        thread.join()


def test_a_request_that_was_cut_off_reaches_no_handler(server: tuple[int, Stored]) -> None:
    port, stored = server
    for body in (b"", b"half"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"PUT /cut HTTP/1.1\r\nHost: me\r\nContent-Length: 8\r\n\r\n" + body)
            client.shutdown(socket.SHUT_WR)
            assert b"" == client.recv(1)
    assert [] == stored


def test_whole_requests_of_one_connection_arrive_each_with_its_body(server: tuple[int, Stored]) -> None:
    port, stored = server
    client = HTTPConnection("127.0.0.1", port)
    for path, body in (("/a", b"first"), ("/b", b""), ("/c", b"third")):
        client.request("PUT", path, body)
        with client.getresponse() as response:
            assert (200, b"") == (response.status, response.read())
    client.close()
    assert [("/a", b"first"), ("/b", b""), ("/c", b"third")] == stored


def read_into(body: BodyBefore, size: int) -> bytes:
    room = bytearray(size)
    return bytes(room[: body.readinto(room)])


@pytest.mark.parametrize(
    "read", [BodyBefore.read, BodyBefore.read1, read_into, lambda body, size: b"".join(islice(body, 2))]
)
def test_a_body_is_read_in_each_way_in_which_a_connection_is_read(read: Callable[[BodyBefore, int], bytes]) -> None:
    body = BodyBefore(b"one\ntwo\n", BytesIO(b"next"))
    assert b"one\ntwo\n" == read(body, 8)
    assert b"next" == read(body, 4)


def test_it_looks_often_whether_it_shall_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = socketserver.BaseServer.serve_forever
    monkeypatch.setattr(serve, "__defaults__", (0.5,))
    starts = SimpleNamespace(claims="NO_LOSS", setup=lambda scratch: None)
    Contract("sinks.py:Mine", starts).call_if_there("setup", Scratch(name="server", path=tmp_path))
    assert LOOKS_EVERY_SECONDS == inspect.signature(serve).parameters["poll_interval"].default
