"""Outages of services: one node at a time where there are several, and a failed restart is reported."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from sinkproof.campaign.results import replay_line
from sinkproof.chaos.schedule import Schedule
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.cli.certify_command import certify
from sinkproof.judging.verdict import EXIT_USAGE
from sinkproof.subject import services_in_use
from sinkproof.subject.service_address import VARIABLE
from sinkproof.subject.services_in_use import OWN, Outages

Calls = list[tuple[str, int | None]]  # (operation, node)


class RecordingService:
    """A service that records the calls of its operations. `fails`: it does not start again."""

    title = "a service"
    owner = os.getpid()

    def __init__(self, nodes: int, *, fails: bool = False) -> None:
        self.node_count, self.fails = nodes, fails
        self.calls: Calls = []

    def kill(self, *, node: int | None = None) -> None:
        self.calls.append(("kill", node))

    def stop(self, *, node: int | None = None) -> None:
        self.calls.append(("stop", node))

    def pause(self, *, node: int | None = None) -> None:
        self.calls.append(("pause", node))

    def resume(self, *, node: int | None = None) -> None:
        self.calls.append(("resume", node))

    def start(self, *, node: int | None = None) -> None:
        if self.fails:
            raise ServiceFailed("it does not start", evidence="none", next_step="none")
        self.calls.append(("start", node))


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> Callable[[RecordingService], RecordingService]:
    def use(service: RecordingService) -> RecordingService:
        monkeypatch.setitem(OWN, "recorded", service)  # type: ignore[arg-type] # has all that outages use
        monkeypatch.setattr(services_in_use, "PAUSE_SECONDS", 0.0)
        return service

    return use


def test_a_single_node_is_restarted_before_the_sink_goes_on(
    in_use: Callable[[RecordingService], RecordingService],
) -> None:
    service, outages = in_use(RecordingService(1)), Outages()
    outages.begin("kill")
    assert [("kill", None), ("start", None)] == service.calls
    outages.begin("pause")
    outages.await_end()
    assert [("pause", None), ("resume", None)] == service.calls[2:]


def test_each_outage_affects_another_node_of_several(in_use: Callable[[RecordingService], RecordingService]) -> None:
    service, outages = in_use(RecordingService(3)), Outages()
    for how in ("kill", "stop", "pause"):
        outages.begin(how)
    outages.await_end()
    assert [("kill", 2), ("stop", 3), ("pause", 1)] == [each for each in service.calls if each[0] in "kill stop pause"]
    assert {("start", 2), ("start", 3), ("resume", 1)} <= {*service.calls}
    outages.begin("kill")
    outages.await_end()
    assert ("kill", 2) == service.calls[-2], "a replayed schedule affects the same node"


def test_a_failed_restart_of_a_node_is_reported_at_the_end(
    in_use: Callable[[RecordingService], RecordingService],
) -> None:
    in_use(RecordingService(3, fails=True))
    outages = Outages()
    outages.begin("kill")
    with pytest.raises(ServiceFailed, match="does not start"):
        outages.await_end()
    outages.await_end()


def test_a_replay_line_starts_as_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--nodes" not in replay_line(Schedule(), "cassandra/masked", "process")
    monkeypatch.setenv(services_in_use.NODES, "3")
    assert replay_line(Schedule(), "cassandra/masked", "process").endswith(" --on process --nodes 3")


@pytest.mark.parametrize("options", ["--nodes 3 --network toxiproxy", "--network toxiproxy --nodes 3"])
def test_a_proxy_before_several_nodes_is_refused(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    monkeypatch.setenv(services_in_use.NODES, "1")
    monkeypatch.setenv(VARIABLE, "")
    result = CliRunner().invoke(certify, ["cassandra/masked", *options.split()])
    assert (EXIT_USAGE, True) == (result.exit_code, "leave out --nodes" in result.output)
