"""Ports of services are free, distinct, and outside of the kernel's ephemeral range."""

from __future__ import annotations

import socket
from pathlib import Path

from sinkproof.chaos.services.ports import HOST, free_ports, is_free


def test_a_port_with_a_listener_is_not_free() -> None:
    [port] = free_ports(1, taken=())
    with socket.create_server((HOST, port)):
        assert not is_free(port)
        assert port not in free_ports(3, taken=())
    assert is_free(port)


def test_a_port_with_recently_closed_connections_is_free() -> None:
    """A killed broker restarts on it."""
    [port] = free_ports(1, taken=())
    with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port)):
        server.accept()[0].close()
    assert is_free(port)


def test_ports_that_are_reserved_for_dead_services_are_not_chosen() -> None:
    first = free_ports(2, taken=())
    assert set() == set(first) & set(free_ports(2, taken=first))


def test_no_port_is_ephemeral() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest <= 30000 or all(port < lowest for port in free_ports(4, taken=()))
