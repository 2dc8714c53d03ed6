"""`sinkproof replay`: one finding again, exactly."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from sinkproof.cli.exit_status import leave
from sinkproof.cli.option_kafka import kafka
from sinkproof.cli.option_network import network
from sinkproof.cli.option_nodes import nodes
from sinkproof.cli.option_services import containers
from sinkproof.judging.verdict import EXIT_INTERNAL, Verdict


@click.command()
@click.argument("schedule")
@click.argument("subject")
@click.option(
    "--on", "shell", type=click.Choice(["simulated", "process", "spark"]), default="simulated", show_default=True
)
@kafka
@containers
@network
@nodes
@click.option("--json", "as_json", is_flag=True, help="Print what happened as JSON.")
@click.option("--log", is_flag=True, help="Print the event log, too.")
@click.option("--as-test", is_flag=True, help="Print a pytest function that does the same.")
@click.option("--here", is_flag=True, help="Run the sink in this very process, where breakpoint() and print() work.")
def replay(schedule: str, subject: str, **options: Any) -> None:
    """Run one SCHEDULE on one SUBJECT again, exactly.

    Exit status 1 if it goes wrong, 0 if not, 2 if it never struck or came to no result.
    """
    from sinkproof.certifier.replay import ReplayFailed, told
    from sinkproof.certifier.replay import replay as run

    try:
        outcome = run(schedule, subject, shell=options["shell"], here=options["here"])
    except ReplayFailed as error:
        leave(str(error), EXIT_INTERNAL if error.ours else Verdict.UNKNOWN.exit_code)
    if options["as_test"]:
        from sinkproof.certifier.pytest_snippet import as_test

        click.echo(as_test(outcome, shell=options["shell"]))
    else:
        click.echo(json.dumps(outcome.document, indent=1) if options["as_json"] else told(outcome, log=options["log"]))
    sys.exit(outcome.verdict.exit_code)
