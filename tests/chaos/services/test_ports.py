"""Ports of services are free, differ, and are none that the kernel would give to a client."""

from __future__ import annotations

import socket
from pathlib import Path

from sinkproof.chaos.services.ports import HOST, free_ports, is_free


def test_a_port_on_which_somebody_listens_is_not_free() -> None:
    [port] = free_ports(1, taken=())
    with socket.create_server((HOST, port)):
        assert not is_free(port)
        assert port not in free_ports(3, taken=())
    assert is_free(port)


def test_a_port_with_connections_that_were_just_closed_is_free() -> None:
    """A broker that was killed comes back on it."""
    [port] = free_ports(1, taken=())
    with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port)):
        server.accept()[0].close()
    assert is_free(port)


def test_ports_of_services_that_are_down_are_left_to_them() -> None:
    first = free_ports(2, taken=())
    assert set() == set(first) & set(free_ports(2, taken=first))


def test_no_port_is_one_that_clients_are_given() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest <= 30000 or all(port < lowest for port in free_ports(4, taken=()))
