"""The options that say which external systems a command uses, checked together and handed over as one value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.cli.command_parts import Command, with_options
from sinkproof.cli.exit_status import leave
from sinkproof.judging.verdict_and_exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from sinkproof.subject.service_options import ServiceOptions

SERVICES: Final = ("kafka", "cassandra", "toxiproxy")
version_options: Final = with_options(
    [
        click.option(
            f"--{name}-version", default="", help=f"Release of {name.title()}.  [default: the one tested most]"
        )
        for name in SERVICES
    ]
)
FOR_SERVICES: Final = {
    "kafka": click.option(
        "--kafka",
        help="external:HOST:PORT[@FILE]: use this cluster of yours. It is never broken. "
        "FILE: its TLS and SASL settings, as client.properties for Kafka's own tools.",
    ),
    "kafka_version": click.option(
        "--kafka-version", help="Release of the brokers that are started.  [default: the one tested most]"
    ),
    "services": click.option(
        "--services",
        type=click.Choice(["local", "container"]),
        help="Start services as processes of this machine, or as containers of its container engine.  [default: local]",
    ),
    "network": click.option(
        "--network",
        type=click.Choice(["toxiproxy"]),
        help="Put a proxy between the sink and its service, and break connections there.",
    ),
    "inside_service": click.option(
        "--inside-service",
        is_flag=True,
        default=None,
        help="Kill the service, too, before each outward call of its data folder: from a request to pre-commit, commit "
        "or abort until that is settled, and in the restart after it. Takes 15 to 20 minutes.",
    ),
    "nodes": click.option(
        "--nodes",
        type=click.IntRange(1, 9),
        help="Nodes of each service that is started. Of three, one at a time is broken while the sink continues.  "
        "[default: 1]",
    ),
}


class ServiceName(click.ParamType[str]):
    """One of sinkproof's own services, or of those that other packages register."""

    name = "service"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from sinkproof.chaos.services.service_catalogue import KINDS

        if value not in KINDS:
            self.fail(f"there is no service {value!r}. Known: {', '.join(KINDS)}", param, ctx)
        return value


def service_options(*names: str) -> Callable[[Command], Command]:
    """Adds these options, or all of them. The command is called with one ServiceOptions, named `services`."""
    added = names or tuple(FOR_SERVICES)

    def decorated(command: Command) -> Command:
        @wraps(command)
        def with_services(**options: Any) -> Any:
            chosen = {name: value for name in added if (value := options.pop(name)) is not None}
            return command(**options, services=_checked(chosen))

        return with_options([FOR_SERVICES[name] for name in added])(with_services)

    return decorated


def _checked(chosen: dict[str, Any]) -> ServiceOptions:
    """Ends the command if a service cannot be used as chosen: now, before anything else is started."""
    from sinkproof.chaos.kafka_client.client_settings import absolute
    from sinkproof.chaos.services.choose_service import CONTAINER, LOCAL
    from sinkproof.chaos.services.container_nodes import engine_version
    from sinkproof.chaos.services.kafka.kafka_jars import KAFKA
    from sinkproof.chaos.services.service import ServiceError
    from sinkproof.subject.service_options import ServiceOptions

    chosen |= {"kafka": absolute(chosen["kafka"])} if "kafka" in chosen else {}
    services = ServiceOptions(**chosen)
    try:
        if services.kafka not in ("", LOCAL):
            with KAFKA.use(services.kafka):
                pass
        if services.services == CONTAINER:
            engine_version()
    except ServiceError as error:
        leave(str(error), EXIT_USAGE)
    if services.through_toxiproxy:
        _refuse_what_no_proxy_can_stand_before(services)
    return services


def _refuse_what_no_proxy_can_stand_before(services: ServiceOptions) -> None:
    from sinkproof.chaos.services.cassandra.cassandra_jars import CASSANDRA
    from sinkproof.chaos.services.choose_service import EXTERNAL
    from sinkproof.chaos.services.kafka.kafka_jars import KAFKA

    for kind in (CASSANDRA, KAFKA):
        if services.address(kind).startswith(EXTERNAL):
            by_option = kind is KAFKA and services.kafka
            named = "--kafka external:..." if by_option else f"{kind.variable}=external:..."
            leave(f"--network breaks services that sinkproof starts: leave out {named}", EXIT_USAGE)
    if services.nodes > 1:
        leave("--network leads to services of one node: leave out --nodes", EXIT_USAGE)
