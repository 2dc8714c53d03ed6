"""`sinkproof doctor`: prints what this machine has and what it lacks. doctor.py finds it out."""

from __future__ import annotations

import json
import sys

import click

from sinkproof.cli.service_flags import SERVICES, version_options
from sinkproof.judging.verdict_and_exit_codes import Verdict


@click.command()
@version_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool, **chosen: str) -> None:
    """Say what this machine has, what it lacks, and the one command that gets it.

    Exit status 0 if what was installed works, 2 if something is lacking for it; the rest is optional.
    """
    from sinkproof.cli.doctor import LACKING, examine

    findings = list(examine({name: chosen[f"{name}_version"] for name in SERVICES}))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(f"{finding.state:9} {finding.name:20} {finding.found}")
            if finding.next_step:
                click.echo(f"{'':30} {finding.next_step}")
    lacking = any(finding.state == LACKING for finding in findings)
    sys.exit(Verdict.UNKNOWN.exit_code if lacking else 0)
