"""`sinkproof report`: renders a certificate again, in any form."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from sinkproof.judging.verdict_and_exit_codes import Verdict


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "markdown", "html", "junit"]),
    default="text",
    show_default=True,
    help="The form of the report, which is printed on stdout.",
)
def report(folder: Path, kind: str) -> None:
    """Render the certificate in FOLDER again. The exit status is that of its verdict."""
    from sinkproof.reports import junit, markdown, page, terminal
    from sinkproof.reports.document import Document, load

    document = load(folder)
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    text = partial(terminal.render, width=shutil.get_terminal_size((120, 24)).columns, color=color)
    kinds: dict[str, Callable[[Document], str]] = {
        "text": text,
        "markdown": markdown.render,
        "html": page.render,
        "junit": junit.render,
    }
    click.echo(kinds[kind](document))
    sys.exit(Verdict(document["verdict"]).exit_code)
