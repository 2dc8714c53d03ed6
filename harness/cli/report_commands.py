"""`sinkproof report`: a certificate again, in another form. `compare`: two of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from sinkproof.judging.verdict import Verdict


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(["text", "markdown", "html", "junit"]), default="text")
def report(folder: Path, kind: str) -> None:
    """Render the certificate in FOLDER again. Exit status is the verdict's."""
    from sinkproof.reports import junit, markdown, page, terminal
    from sinkproof.reports.document import load

    document = load(folder)
    render = {"text": terminal.render, "markdown": markdown.render, "html": page.render, "junit": junit.render}[kind]
    click.echo(render(document))
    sys.exit(Verdict(document["verdict"]).exit_code)


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
def compare(before: Path, after: Path, as_json: bool) -> None:
    """Say what changed from the certificate in BEFORE to the one in AFTER.

    Exit status 1 if AFTER is worse: it upholds less, or has looked at less.
    """
    from sinkproof.reports.compare import compare as changes
    from sinkproof.reports.compare import render
    from sinkproof.reports.document import load, plain

    found = changes(load(before), load(after))
    click.echo(json.dumps(plain(found), indent=1) if as_json else render(found), nl=as_json)
    sys.exit(1 if found.worse else 0)
