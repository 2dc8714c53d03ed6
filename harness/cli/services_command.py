"""`sinkproof services`: external systems that run until they are stopped. `sinkproof doctor`: what is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from sinkproof.cli.exit_status import leave
from sinkproof.cli.option_services import containers
from sinkproof.judging.verdict import EXIT_INTERNAL, EXIT_USAGE, Verdict

NAMES: Final = ("kafka", "cassandra", "toxiproxy")
SEVERAL: Final = click.argument("names", type=click.Choice(NAMES), nargs=-1)
Function = TypeVar("Function", bound=Callable[..., Any])


def versions(command: Function) -> Function:
    """An option for each kind."""
    for name in NAMES:
        command = click.option(f"--{name}-version", default="", help="A released one.  [default: the one tried most]")(
            command
        )
    return command


@click.group()
def services() -> None:
    """Start and stop external systems that several commands use: kafka, cassandra, toxiproxy.

    Certifications that need one use what runs, else they start and end one of their own.
    """


@services.command()
@SEVERAL
@versions
@containers
@click.option("--nodes", type=click.IntRange(1, 9), default=1, show_default=True, help="Of the cluster.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Of the first node.  [default: any that is free]")
@click.option("--json", "as_json", is_flag=True)
def start(names: tuple[str, ...], *, nodes: int, port: int | None, as_json: bool, **chosen: str) -> None:
    """Start services on loopback that run until they are stopped, and print their addresses.

    The first time what they need is resolved or built; later no network is needed.
    """
    from sinkproof.chaos.services.local_service import WantedService
    from sinkproof.chaos.services.service_catalogue import KINDS

    if port and len(names) > 1:
        raise click.UsageError("--port is of one service")
    rows = []
    for kind in [KINDS[name] for name in dict.fromkeys(names or NAMES[:1])]:
        with _told():
            wanted = WantedService(nodes=nodes, port=port or 0, owner=0)
            version = chosen[f"{kind.name}_version"] or kind.version
            service, new = kind.start_detached(version, wanted, progress=_talk)
        if not new:
            _talk(f"{kind.title} {service.version} runs already")
        rows.append(_row(service))
    if as_json:
        click.echo(json.dumps(rows if len(rows) > 1 else rows[0], indent=1))
        return
    for row in rows:
        click.echo(row["endpoint"])


@services.command()
@SEVERAL
@versions
def prepare(names: tuple[str, ...], **chosen: str) -> None:
    """Resolve or build what `start` needs, and start nothing. Says nothing if it is there."""
    from sinkproof.chaos.services.service_catalogue import KINDS

    for kind in [KINDS[name] for name in dict.fromkeys(names or NAMES[:1])]:
        with _told():
            kind.install(chosen[f"{kind.name}_version"] or kind.version, progress=_talk)


@services.command()
@click.option("--json", "as_json", is_flag=True)
def status(as_json: bool) -> None:
    """List what runs, whoever started it."""
    from sinkproof.chaos.services.running_services import running
    from sinkproof.chaos.services.service_catalogue import KINDS

    with _told():
        rows = [_row(KINDS[entry.kind].service.attach(entry)) for entry in running(*KINDS)]
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
@SEVERAL
def stop(names: tuple[str, ...]) -> None:
    """Stop what `start` has started, all of it by default, and remove its data.

    What belongs to a running command is left alone.
    """
    from sinkproof.chaos.services.service_catalogue import KINDS

    for kind in [KINDS[name] for name in dict.fromkeys(names or NAMES)]:
        with _told():
            service = kind.running()
            if service is not None:
                service.end()
        if service is not None:
            _talk(f"{kind.name} at {service.endpoint} is stopped")
        elif kind.name in names:
            _talk(f"no {kind.name} runs that `services start` has started")


@click.command()
@versions
@click.option("--json", "as_json", is_flag=True)
def doctor(as_json: bool, **chosen: str) -> None:
    """Say what this machine has, what it lacks, and the one command that gets it.

    Exit status 0 if nothing is lacking, 2 if something cannot be certified here.
    """
    from sinkproof.cli.doctor import LACKING, examine

    with _told():
        findings = list(examine({name: chosen[f"{name}_version"] for name in NAMES}))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(f"{finding.state:9} {finding.name:20} {finding.found}")
            if finding.next_step:
                click.echo(f"{'':30} {finding.next_step}")
    lacking = any(finding.state == LACKING for finding in findings)
    sys.exit(Verdict.UNKNOWN.exit_code if lacking else 0)


def _talk(text: str) -> None:
    click.echo(f"sinkproof: {text}", err=True)


def _row(service: Any) -> dict[str, Any]:
    """`service`: a LocalService."""
    pid: Callable[[int], int] = service.pid
    return {
        "kind": service.name,
        "version": service.version,
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
