"""How services are broken and restored: one node at a time where there are several, and failures are reported."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from sinkproof.campaign.results import replay_line
from sinkproof.chaos.schedule import Schedule, parse
from sinkproof.chaos.services.service import ServiceFailed
from sinkproof.cli.certify_command import certify
from sinkproof.judging.verdict_and_exit_codes import EXIT_USAGE
from sinkproof.subject import service_outages
from sinkproof.subject.service_outages import Outages
from sinkproof.subject.services_in_use import ServicesInUse

Calls = list[tuple[str, int | None]]  # what, and to which node


class RecordedService:
    """A service that records what is done to it. `fails`: it does not come back."""

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
def outages_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[RecordedService], Outages]:
    monkeypatch.setattr(service_outages, "PAUSE_SECONDS", 0.0)

    def use(service: RecordedService) -> Outages:
        services = ServicesInUse()
        services.own["recorded"] = service  # type: ignore[assignment] # as much of a LocalService as Outages needs
        return Outages(services)

    return use


def test_the_only_node_is_back_before_the_caller_continues(outages_of: Callable[[RecordedService], Outages]) -> None:
    outages = outages_of(service := RecordedService(1))
    outages.begin("kill")
    assert [("kill", None), ("start", None)] == service.calls
    outages.begin("pause")
    outages.await_end()
    assert [("pause", None), ("resume", None)] == service.calls[2:]


def test_of_several_nodes_another_one_is_away_each_time(outages_of: Callable[[RecordedService], Outages]) -> None:
    outages = outages_of(service := RecordedService(3))
    for how in ("kill", "stop", "pause"):
        outages.begin(how)
    outages.await_end()
    assert [("kill", 2), ("stop", 3), ("pause", 1)] == [each for each in service.calls if each[0] in "kill stop pause"]
    assert {("start", 2), ("start", 3), ("resume", 1)} <= {*service.calls}
    outages.begin("kill")
    outages.await_end()
    assert ("kill", 2) == service.calls[-2], "a replayed schedule breaks the same node"


def test_a_node_that_does_not_come_back_is_reported_at_the_end(
    outages_of: Callable[[RecordedService], Outages],
) -> None:
    outages = outages_of(RecordedService(3, fails=True))
    outages.begin("kill")
    with pytest.raises(ServiceFailed, match="does not start"):
        outages.await_end()
    outages.await_end()


@pytest.mark.parametrize("kind", ["kill-host", "cut", "slow-link"])
def test_a_replay_line_of_a_fault_of_hosts_starts_hosts(kind: str) -> None:
    schedule = parse(f"sink[0].commit.before#1={kind}")
    assert replay_line(schedule, "files/two-phase", "spark").endswith(" --on spark --master cluster:3")


def test_a_replay_line_starts_as_many_nodes() -> None:
    assert "--nodes" not in replay_line(Schedule(), "cassandra/masked", "process")
    assert replay_line(Schedule(), "cassandra/masked", "process", nodes=3).endswith(" --on process --nodes 3")


@pytest.mark.parametrize("options", ["--nodes 3 --network toxiproxy", "--network toxiproxy --nodes 3"])
def test_a_proxy_before_several_nodes_is_refused(options: str) -> None:
    result = CliRunner().invoke(certify, ["cassandra/masked", *options.split()])
    assert (EXIT_USAGE, True) == (result.exit_code, "leave out --nodes" in result.output)


@pytest.mark.parametrize("kind", ["KAFKA", "CASSANDRA"])
def test_a_proxy_before_an_external_service_is_refused(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv(f"SINKPROOF_{kind}", "external:127.0.0.1:1")
    result = CliRunner().invoke(certify, ["kafka/plain", "--network", "toxiproxy"])
    assert (EXIT_USAGE, True) == (result.exit_code, f"leave out SINKPROOF_{kind}=external:..." in result.output)
