"""`sinkproof services`: external systems that run until they are stopped. `sinkproof doctor`: what is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from sinkproof.cli_ending import leave
from sinkproof.verdict import EXIT_INTERNAL, EXIT_USAGE, Verdict

KINDS = click.Choice(["kafka"])


@click.group()
def services() -> None:
    """Start and stop external systems that several commands use.

    Certifications that need one use what runs, else they start and end one of their own.
    """


@services.command()
@click.argument("kind", type=KINDS, default="kafka")
@click.option("--kafka-version", "version", default="", help="A released version.  [default: the one tried most]")
@click.option("--nodes", type=click.IntRange(1, 9), default=1, show_default=True, help="Brokers of the cluster.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Of the first node.  [default: any that is free]")
@click.option("--json", "as_json", is_flag=True)
def start(kind: str, *, version: str, nodes: int, port: int | None, as_json: bool) -> None:
    """Start a broker on loopback that runs until it is stopped, and print its address.

    The first time its jars are resolved; later no network is needed.
    """
    from sinkproof.chaos.services import kafka
    from sinkproof.chaos.services.kafka_local import Wanted

    with _told():
        wanted = Wanted(nodes=nodes, port=port or 0, owner=0)
        service, new = kafka.start_detached(version or kafka.VERSION, wanted, progress=_talk)
    if not new:
        _talk(f"Kafka {service.spec.version} runs already")
    click.echo(json.dumps(_row(service), indent=1) if as_json else service.endpoint)


@services.command()
@click.argument("kind", type=KINDS, default="kafka")
@click.option("--kafka-version", "version", default="", help="A released version.  [default: the one tried most]")
def prepare(kind: str, version: str) -> None:
    """Resolve what `start` needs, and start nothing. Says nothing if it is there."""
    from sinkproof.chaos.services import kafka

    with _told():
        kafka.install(version or kafka.VERSION, progress=_talk)


@services.command()
@click.option("--json", "as_json", is_flag=True)
def status(as_json: bool) -> None:
    """List what runs, whoever started it."""
    from sinkproof.chaos.services.kafka_local import KIND, LocalKafka
    from sinkproof.chaos.services.kept import running

    with _told():
        rows = [_row(LocalKafka.attach(entry)) for entry in running(KIND)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        until = f"ends with process {row['owner']}" if row["owner"] else "runs until it is stopped"
        living = ", ".join(f"{node} ({pid})" for node, pid in row["living"].items()) or "none"
        click.echo(f"{row['kind']} {row['version']}  {row['endpoint']}\n  {until}; living nodes: {living}")
        click.echo(f"  logs and data: {row['folder']}")
        if row["died"]:
            click.echo(f"  died by itself: {row['died']}")
    if not rows:
        click.echo("nothing runs")


@services.command()
@click.argument("kind", type=KINDS, default="kafka")
def stop(kind: str) -> None:
    """Stop what `start` has started, and remove its data. What belongs to a running command is left alone."""
    from sinkproof.chaos.services.kafka import running_kafka

    with _told():
        service = running_kafka()
        if service is None:
            _talk(f"no {kind} runs that `services start` has started")
            return
        service.end()
    _talk(f"{kind} at {service.endpoint} is stopped")


@click.command()
@click.option("--kafka-version", "version", default="", help="Whose jars to look for.")
@click.option("--json", "as_json", is_flag=True)
def doctor(version: str, as_json: bool) -> None:
    """Say what this machine has, what it lacks, and the one command that gets it.

    Exit status 0 if nothing is lacking, 2 if something cannot be certified here.
    """
    from sinkproof.chaos.services.kafka import VERSION
    from sinkproof.doctor import LACKING, examine

    with _told():
        findings = list(examine(version or VERSION))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(f"{finding.state:9} {finding.name:18} {finding.found}")
            if finding.next_step:
                click.echo(f"{'':28} {finding.next_step}")
    lacking = any(finding.state == LACKING for finding in findings)
    sys.exit(Verdict.UNKNOWN.exit_code if lacking else 0)


def _talk(text: str) -> None:
    click.echo(f"sinkproof: {text}", err=True)


def _row(service: Any) -> dict[str, Any]:
    """`service`: a LocalKafka."""
    pid: Callable[[int], int] = service.pid
    return {
        "kind": service.name,
        "version": service.spec.version,
        "endpoint": service.endpoint,
        "owner": service.owner,
        "nodes": service.node_count,
        "living": {str(node): pid(node) for node in service.living()},
        "died": service.died_by_itself(),
        "folder": str(service.folder),
    }


@contextmanager
def _told() -> Iterator[None]:
    """What is missing is the caller's to mend; what failed is not."""
    from sinkproof.chaos.services.service import ServiceFailed, ServiceUnavailable

    try:
        yield
    except ServiceUnavailable as error:
        leave(str(error), EXIT_USAGE)
    except ServiceFailed as error:
        leave(str(error), EXIT_INTERNAL)
