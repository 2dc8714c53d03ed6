"""`sinkproof replay`: runs the schedule of one finding again."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from sinkproof.cli.command_parts import share_scratch_with
from sinkproof.cli.exit_status import leave
from sinkproof.cli.service_flags import service_options
from sinkproof.judging.verdict_and_exit_codes import EXIT_INTERNAL, Verdict

if TYPE_CHECKING:
    from sinkproof.subject.service_options import ServiceOptions


@click.command()
@click.argument("schedule")
@click.argument("subject")
@click.option(
    "--on",
    "shell",
    type=click.Choice(["simulated", "process", "spark"]),
    default="simulated",
    show_default=True,
    help="The shell in which the sink runs and is crashed.",
)
@click.option("--master", help="The Spark master; cluster:3 for faults of hosts.  [default: local]")
@service_options()
@click.option("--json", "as_json", is_flag=True, help="Print what happened as JSON.")
@click.option("--log", is_flag=True, help="Print the event log, too.")
@click.option("--as-test", is_flag=True, help="Print a pytest function that runs the same schedule.")
@click.option("--here", is_flag=True, help="Run the sink in this process, where breakpoint() and print() work.")
def replay(schedule: str, subject: str, services: ServiceOptions, **options: Any) -> None:
    """Run one SCHEDULE on one SUBJECT again, exactly.

    Exit status 1 if a claim is violated, 0 if not, 2 if a fault of the schedule never fired or the run has no result.
    """
    from sinkproof.certifier.replay import ReplayFailed, describe
    from sinkproof.certifier.replay import replay as run

    share_scratch_with(options["master"] or "")
    try:
        how = {"shell": options["shell"], "here": options["here"], "master": options["master"] or ""}
        outcome = run(schedule, subject, services=services, **how)
    except ReplayFailed as error:
        leave(str(error), EXIT_INTERNAL if error.ours else Verdict.UNKNOWN.exit_code)
    if options["as_test"]:
        from sinkproof.certifier.pytest_snippet import as_test

        click.echo(as_test(outcome, shell=options["shell"]))
    elif options["as_json"]:
        click.echo(json.dumps(outcome.document, indent=1))
    else:
        click.echo(describe(outcome, log=options["log"]))
    sys.exit(outcome.verdict.exit_code)
