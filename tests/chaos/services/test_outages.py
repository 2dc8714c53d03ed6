"""How services are broken and made whole again: one node at a time where there are several, and what fails is told."""

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

Told = list[tuple[str, int | None]]  # what, and to which node


class Recorded:
    """A service that notes what is done to it. `fails`: it does not come back."""

    title = "a service"
    owner = os.getpid()

    def __init__(self, nodes: int, *, fails: bool = False) -> None:
        self.node_count, self.fails = nodes, fails
        self.told: Told = []

    def kill(self, *, node: int | None = None) -> None:
        self.told.append(("kill", node))

    def stop(self, *, node: int | None = None) -> None:
        self.told.append(("stop", node))

    def pause(self, *, node: int | None = None) -> None:
        self.told.append(("pause", node))

    def resume(self, *, node: int | None = None) -> None:
        self.told.append(("resume", node))

    def start(self, *, node: int | None = None) -> None:
        if self.fails:
            raise ServiceFailed("it does not start", evidence="none", next_step="none")
        self.told.append(("start", node))


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Recorded], Recorded]:
    def use(service: Recorded) -> Recorded:
        monkeypatch.setitem(OWN, "recorded", service)  # type: ignore[arg-type] # as much of one as is asked
        monkeypatch.setattr(services_in_use, "PAUSE_SECONDS", 0.0)
        return service

    return use


def test_the_only_node_is_back_before_anybody_goes_on(in_use: Callable[[Recorded], Recorded]) -> None:
    service, outages = in_use(Recorded(1)), Outages()
    outages.begin("kill")
    assert [("kill", None), ("start", None)] == service.told
    outages.begin("pause")
    outages.await_end()
    assert [("pause", None), ("resume", None)] == service.told[2:]


def test_of_several_nodes_another_one_is_away_each_time(in_use: Callable[[Recorded], Recorded]) -> None:
    service, outages = in_use(Recorded(3)), Outages()
    for how in ("kill", "stop", "pause"):
        outages.begin(how)
    outages.await_end()
    assert [("kill", 2), ("stop", 3), ("pause", 1)] == [each for each in service.told if each[0] in "kill stop pause"]
    assert {("start", 2), ("start", 3), ("resume", 1)} <= {*service.told}
    outages.begin("kill")
    outages.await_end()
    assert ("kill", 2) == service.told[-2], "a schedule that is played again breaks the same one"


def test_a_node_that_does_not_come_back_is_told_at_the_end(in_use: Callable[[Recorded], Recorded]) -> None:
    in_use(Recorded(3, fails=True))
    outages = Outages()
    outages.begin("kill")
    with pytest.raises(ServiceFailed, match="does not start"):
        outages.await_end()
    outages.await_end()


def test_a_line_that_is_played_again_starts_as_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--nodes" not in replay_line(Schedule(), "cassandra/masked", "process")
    monkeypatch.setenv(services_in_use.NODES, "3")
    assert replay_line(Schedule(), "cassandra/masked", "process").endswith(" --on process --nodes 3")


@pytest.mark.parametrize("options", ["--nodes 3 --network toxiproxy", "--network toxiproxy --nodes 3"])
def test_a_proxy_before_several_nodes_is_refused(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    monkeypatch.setenv(services_in_use.NODES, "1")
    monkeypatch.setenv(VARIABLE, "")
    result = CliRunner().invoke(certify, ["cassandra/masked", *options.split()])
    assert (EXIT_USAGE, True) == (result.exit_code, "leave out --nodes" in result.output)
