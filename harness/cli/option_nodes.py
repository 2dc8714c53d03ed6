"""The option `--nodes`: how many nodes the services have that are started for a sink."""

from __future__ import annotations

import os
from typing import Any

import click

from sinkproof.judging.verdict import EXIT_USAGE


def _start_several(context: click.Context, option: click.Parameter, count: int | None) -> None:
    from sinkproof.subject.services_in_use import NODES

    if count is not None:
        os.environ[NODES] = str(count)
        refuse_several_behind_a_proxy()


def refuse_several_behind_a_proxy() -> None:
    """Options are read in the order in which they are given: whichever comes last asks."""
    from sinkproof.cli.exit_status import leave
    from sinkproof.subject.service_address import is_toxic
    from sinkproof.subject.services_in_use import nodes_wanted

    if is_toxic() and nodes_wanted() > 1:
        leave("--network leads to services of one node: leave out --nodes", EXIT_USAGE)


def nodes(command: Any) -> Any:
    return click.option(
        "--nodes",
        type=click.IntRange(1, 9),
        expose_value=False,
        callback=_start_several,
        help="Of services that are started: of three, one at a time is broken while the sink goes on.  [default: 1]",
    )(command)
