"""The option `--network`, which several commands have."""

from __future__ import annotations

import os
from typing import Any

import click

from sinkproof.cli.option_nodes import refuse_several_behind_a_proxy
from sinkproof.judging.verdict import EXIT_USAGE


def _lead_through(context: click.Context, option: click.Parameter, chosen: str | None) -> None:
    """Campaigns are processes of their own: they find it in their environment."""
    from sinkproof.cli.exit_status import leave
    from sinkproof.subject.service_address import VARIABLE

    if chosen is None:
        return
    for variable in ("SINKPROOF_CASSANDRA", "SINKPROOF_KAFKA"):
        if os.environ.get(variable, "").startswith("external"):
            leave(f"--network breaks services of our own: leave out {variable}=external:...", EXIT_USAGE)
    os.environ[VARIABLE] = chosen
    refuse_several_behind_a_proxy()


def network(command: Any) -> Any:
    return click.option(
        "--network",
        type=click.Choice(["toxiproxy"]),
        expose_value=False,
        callback=_lead_through,
        help="Lead the sink to its service through a proxy, and break connections there.",
    )(command)
