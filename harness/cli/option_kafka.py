"""The options `--kafka` and `--kafka-version`: against which broker a sink is certified."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import click

from sinkproof.judging.verdict import EXIT_USAGE


def _use_external(context: click.Context, option: click.Parameter, address: str | None) -> None:
    """Asked once, before anything else is started. Campaigns are processes of their own: they find it in their
    environment.
    """
    from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
    from sinkproof.chaos.services.service import ServiceError
    from sinkproof.chaos.services.service_kind import LOCAL
    from sinkproof.cli.exit_status import leave

    if address is None:
        return
    try:
        with nullcontext() if address == LOCAL else KAFKA.use(address):
            os.environ[KAFKA.variable] = address
    except ServiceError as error:
        leave(str(error), EXIT_USAGE)


def _use_version(context: click.Context, option: click.Parameter, version: str | None) -> None:
    from sinkproof.chaos.services.kafka.kafka_jars import KAFKA

    if version is not None:
        os.environ[KAFKA.variable_of_version] = version


def kafka(command: Any) -> Any:
    for name, callback, help_text in (
        ("--kafka-version", _use_version, "A released version, of a broker of our own.  [default: the one tried most]"),
        ("--kafka", _use_external, "external:HOST:PORT: a cluster of yours, which is not broken."),
    ):
        command = click.option(name, expose_value=False, callback=callback, help=help_text)(command)
    return command
