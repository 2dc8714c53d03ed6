"""`sinkproof canaries`: tests the certifier itself on sinks that are wrong on purpose, and on correct controls."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from typing import Final

import click

from sinkproof.cli.command_parts import SHELL_CHOICE, progress_on, shells_for
from sinkproof.judging.verdict_and_exit_codes import Verdict

SERVICES: Final = ("kafka", "cassandra", "inside-service")  # canaries on a real service, which is started for them


@click.command()
@click.option(
    "--on",
    "shell",
    type=click.Choice([*SHELL_CHOICE.choices, *SERVICES]),
    default="simulated",
    show_default=True,
    help="The shell to test; or the canaries of a real Kafka or Cassandra, which is started for them; or services that "
    "are wrong inside.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the kill table as JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def canaries(shell: str, as_json: bool, quiet: bool) -> None:
    """Test the certifier: every canary, a sink that is wrong on purpose, must be convicted, and no control.

    Prints the kill table. Exit status 0 if all canaries and no controls are convicted.
    """
    from sinkproof.canaries.kill_table import render
    from sinkproof.certifier.try_without_subject import try_canaries

    with closing(progress_on(quiet=quiet)) as progress:
        results, blind = try_canaries(shells_for(shell, everything=False), progress=progress)
    if as_json:
        click.echo(json.dumps({"canaries": results, "blind": blind}, indent=1))
    else:
        click.echo(render(results))
        for reason in blind:
            click.echo(f"BLIND: {reason}", err=True)
    sys.exit(Verdict.UNKNOWN.exit_code if blind else 0)
