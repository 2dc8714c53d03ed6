"""`sinkproof compare`: what changed from one certificate to another."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
def compare(before: Path, after: Path, as_json: bool) -> None:
    """Say what changed from the certificate in BEFORE to the one in AFTER.

    Exit status 1 if AFTER is worse: it upholds less, or less was looked at (claims, steps, lines, stages). Numbers of
    schedules and kills change with the load of the machine, and decide nothing.

    \b
    sinkproof compare .sinkproof/main .sinkproof/ci       as the workflow of `sinkproof init` does
    """
    from sinkproof.reports.certificate_file import load
    from sinkproof.reports.compare import compare as changes
    from sinkproof.reports.compare import render
    from sinkproof.reports.document import plain

    found = changes(load(before), load(after))
    click.echo(json.dumps(plain(found), indent=1) if as_json else render(found), nl=as_json)
    sys.exit(1 if found.worse else 0)
