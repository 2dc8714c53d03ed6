"""`sinkproof report`: renders a certificate again, in any form."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sinkproof.chaos.clock import utc_now
from sinkproof.reports.badge import OLD_DAYS
from sinkproof.reports.document import Document, load, write_errors

if TYPE_CHECKING:
    from sinkproof.certifier.waivers import Gate

FORMATS: Final = ("text", "markdown", "html", "junit", "sarif", "github", "badge", "badge-json")
FOR_PERSONS: Final = ("text", "github")  # waivers are printed beside them; the others are read by programs


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The form of the report, which is printed on stdout. sarif: for code scanners. github: annotations, and the "
    "summary of the step. badge: SVG; badge-json: what badge services read.",
)
@click.option(
    "--summary",
    type=click.Path(path_type=Path),
    envvar="GITHUB_STEP_SUMMARY",
    help="With --format github: the summary is added to this file.  [default: what GITHUB_STEP_SUMMARY names]",
)
@click.option(
    "--old-after",
    "old_days",
    type=click.IntRange(min=0),
    default=OLD_DAYS,
    show_default=True,
    metavar="DAYS",
    help="A badge is grey when its certificate is older.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict, where an earlier step has told it.")
def report(folder: Path, *, kind: str, summary: Path | None, old_days: int, exit_zero: bool) -> None:
    """Render the certificate in FOLDER again.

    The exit status is that of its verdict; 0 for a violation that is waived in pyproject.toml.

    \b
    sinkproof report .sinkproof/latest                                    as `certify` has printed it
    sinkproof report .sinkproof/latest --format sarif > sinkproof.sarif   for a code scanner
    sinkproof report .sinkproof/latest --format badge > badge.svg         for a README
    """
    from sinkproof.certifier.waivers import Gate, waivers_of

    gate = Gate(document=load(folder), waivers=waivers_of(Path.cwd()), today=utc_now().date())
    click.echo(_renderer(kind, gate, old_days)(gate.document), nl=kind not in ("sarif", "badge", "badge-json", "github"))
    for line in gate.lines():
        click.echo(line, err=kind not in FOR_PERSONS)
    if kind == "github" and summary is not None:
        _add_summary(gate, summary)
    sys.exit(0 if exit_zero else gate.exit_status)


def _renderer(kind: str, gate: Gate, old_days: int) -> Callable[[Document], str]:
    from sinkproof.reports import badge, github_annotations, junit, markdown, page, sarif, terminal

    aged = {"now": utc_now(), "old_days": old_days}
    renderers: dict[str, Callable[..., str]] = {
        "text": terminal.render,
        "markdown": markdown.render,
        "html": page.render,
        "junit": junit.render,
        "sarif": partial(sarif.render, waived=gate.reasons),
        "github": partial(github_annotations.render, waived=gate.reasons),
        "badge": partial(badge.render, **aged),
        "badge-json": partial(badge.endpoint, **aged),
    }
    return renderers[kind]


def _add_summary(gate: Gate, path: Path) -> None:
    from sinkproof.reports.github_annotations import SUMMARY_BYTES_MOST, summary

    with write_errors(f"cannot write the summary {path}", next_step="Name another file with --summary"):
        with path.open("ab") as file:
            room = SUMMARY_BYTES_MOST - file.tell()
            file.write(summary(gate.document, waivers=gate.lines(), room=room).encode())
