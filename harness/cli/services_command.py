"""`sinkproof services`: starts, lists and stops external systems that several commands use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.chaos.services.local_service import LocalService, WantedService
from sinkproof.cli.service_flags import SERVICES, ServiceName, service_options, version_options

if TYPE_CHECKING:
    from sinkproof.subject.service_options import ServiceOptions

SEVERAL: Final = click.argument("names", type=ServiceName(), nargs=-1)


@click.group()
def services() -> None:
    """Start and stop external systems that several commands use: kafka, cassandra, toxiproxy, spark-cluster, and those
    that other packages register (`sinkproof.services`).

    `sinkproof run` uses them, and so do contracts that start none. Registered pairs start and end one of their own.
    """


@services.command()
@SEVERAL
@version_options
@service_options("services")
@click.option(
    "--nodes", type=click.IntRange(1, 9), help="Nodes of the cluster.  [default: 1; of spark-cluster 3 hosts]"
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    help="Port of the first node.  [default: any that is free; of spark-cluster 7077]",
)
@click.option(
    "--shared",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    multiple=True,
    help="Of spark-cluster: a folder below /tmp or /dev/shm that all hosts see; else each has these two for itself. "
    "The current folder is seen by all. Any number of times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def start(
    names: tuple[str, ...],
    *,
    nodes: int | None,
    port: int | None,
    shared: tuple[Path, ...],
    services: ServiceOptions,
    as_json: bool,
    **chosen: str,
) -> None:
    """Start services on loopback that run until they are stopped, and print their addresses.

    The first start of a service resolves or builds its programs; later starts need no network.
    """
    from sinkproof.chaos.services.service_catalogue import KINDS

    if port and len(names) > 1:
        raise click.UsageError("--port is for one service")
    rows = []
    for kind in [KINDS[name] for name in dict.fromkeys(names or SERVICES[:1])]:
        wanted = WantedService(nodes=nodes or kind.nodes, port=port or 0, shared=shared, owner=0)
        version = chosen.get(f"{kind.name}_version") or kind.version
        service, new = kind.start_detached(version, wanted, progress=_talk, everywhere=services.services)
        if not new:
            _talk(f"{kind.title} {service.version} runs already")
        for line in service.how_to_use():
            _talk(line)
        rows.append(_row(service))
    if as_json:
        click.echo(json.dumps(rows if len(rows) > 1 else rows[0], indent=1))
        return
    for row in rows:
        click.echo(row["endpoint"])


@services.command()
@SEVERAL
@version_options
def prepare(names: tuple[str, ...], **chosen: str) -> None:
    """Resolve or build what `start` needs, without starting it. Prints nothing if everything is there."""
    from sinkproof.chaos.services.service_catalogue import KINDS

    for kind in [KINDS[name] for name in dict.fromkeys(names or SERVICES[:1])]:
        kind.install(chosen.get(f"{kind.name}_version") or kind.version, progress=_talk)


@services.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(as_json: bool) -> None:
    """List the services that run, also those of running certifications."""
    from sinkproof.chaos.services.running_services import running
    from sinkproof.chaos.services.service_catalogue import KINDS

    rows = [_row(KINDS[entry.kind].service.attach(entry)) for entry in running(*KINDS)]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        until = f"ends with process {row['owner']}" if row["owner"] else "runs until it is stopped"
        living = ", ".join(f"{node} ({pid})" for node, pid in row["living"].items()) or "none"
        click.echo(f"{row['kind']} {row['version']}  {row['endpoint']}\n  {until}; living nodes: {living}")
        click.echo(f"  logs and data: {row['folder']}")
        for line in row["use"]:
            click.echo(f"  {line}")
        if row["died"]:
            click.echo(f"  died by itself: {row['died']}")
    if not rows:
        click.echo("nothing runs")


@services.command()
@SEVERAL
def stop(names: tuple[str, ...]) -> None:
    """Stop services that `start` has started, all of them by default, and remove their data.

    Services of a running certification are not stopped.
    """
    from sinkproof.chaos.services.service_catalogue import KINDS

    for kind in [KINDS[name] for name in dict.fromkeys(names or KINDS)]:
        service = kind.running()
        if service is not None:
            service.end()
            _talk(f"{kind.name} at {service.endpoint} is stopped")
        elif kind.name in names:
            _talk(f"no {kind.name} runs that `services start` has started")


def _talk(text: str) -> None:
    click.echo(f"sinkproof: {text}", err=True)


def _row(service: LocalService) -> dict[str, Any]:
    return {
        "kind": service.name,
        "version": service.version,
        "endpoint": service.endpoint,
        "owner": service.owner,
        "nodes": service.node_count,
        "living": {str(node): service.pid(node) for node in service.living()},
        "died": service.died_by_itself(),
        "folder": str(service.folder),
        "use": list(service.how_to_use()),
    }
