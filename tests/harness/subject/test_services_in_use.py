"""The options of services reach every process with the scratch, and what one process uses stays in that process."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
from sinkproof.chaos.services.toxiproxy.toxiproxy_server import TOXIPROXY
from sinkproof.subject.scratch import Scratch
from sinkproof.subject.service_options import ServiceOptions
from sinkproof.subject.services_in_use import ServicesInUse

OPTIONS = ServiceOptions(kafka="external:host:1", kafka_version="4.0.0", network="toxiproxy", nodes=3)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA", "KAFKA_VERSION", "CASSANDRA", "TOXIPROXY", "SERVICES"):
        monkeypatch.delenv(f"SINKPROOF_{name}", raising=False)


def test_another_process_is_given_the_options_and_nothing_else() -> None:
    services = ServicesInUse(options=OPTIONS)
    services.used.add("kafka")
    scratch = pickle.loads(pickle.dumps(Scratch(name="x", path=Path(), services=services)))
    assert (OPTIONS, set()) == (scratch.services.options, scratch.services.used)


def test_a_changed_scratch_uses_the_same_services() -> None:
    scratch = Scratch(name="x", path=Path())
    assert replace(scratch, shell="process").services is scratch.services
    assert Scratch(name="y", path=Path()).services is not scratch.services


def test_an_option_wins_over_the_variable_and_the_variable_over_the_option_for_all_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SINKPROOF_KAFKA", "external:other:1")
    monkeypatch.setenv("SINKPROOF_KAFKA_VERSION", "3.9.0")
    assert ("external:host:1", "4.0.0") == (OPTIONS.address(KAFKA), OPTIONS.version(KAFKA))
    options = ServiceOptions(services="container")
    assert ("external:other:1", "3.9.0") == (options.address(KAFKA), options.version(KAFKA))
    assert ("container", "") == (options.address(CASSANDRA), options.address(TOXIPROXY))
