"""The option `--services`: whether services are processes of this machine, or containers."""

from __future__ import annotations

import os
from typing import Any

import click

from sinkproof.judging.verdict import EXIT_USAGE


def _use(context: click.Context, option: click.Parameter, chosen: str | None) -> None:
    """Asked once, before anything else is started. Campaigns are processes of their own: they find it in their
    environment.
    """
    from sinkproof.chaos.services.container_nodes import engine_version
    from sinkproof.chaos.services.service import ServiceError
    from sinkproof.chaos.services.service_kind import CONTAINER, EVERYWHERE
    from sinkproof.cli.exit_status import leave

    if chosen is None:
        return
    try:
        if chosen == CONTAINER:
            engine_version()
    except ServiceError as error:
        leave(str(error), EXIT_USAGE)
    os.environ[EVERYWHERE] = chosen


def containers(command: Any) -> Any:
    return click.option(
        "--services",
        type=click.Choice(["local", "container"]),
        expose_value=False,
        callback=_use,
        help="Processes of this machine, or containers of the engine that answers.  [default: local]",
    )(command)
