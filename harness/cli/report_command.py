"""`sinkproof report`: renders a certificate again, in any form."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sinkproof.chaos.clock import utc_now
from sinkproof.reports.certificate_file import load
from sinkproof.reports.document import write_errors

if TYPE_CHECKING:
    from sinkproof.certifier.waivers import WaiverCheck

OLD_DAYS: Final = 30  # a badge that a weekly run renews stays coloured
FORMATS: Final = ("text", "markdown", "html", "junit", "sarif", "github", "badge", "badge-json")
BESIDE_AN_EARLIER: Final = ("text", "html", "markdown")
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
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="EARLIER",
    help="The folder of an earlier certificate. The report says of each finding whether it is new, still there, "
    "gone or not looked for. For text, html and markdown.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the verdict, where an earlier step has told it.")
def report(
    folder: Path, *, kind: str, summary: Path | None, old_days: int, against: Path | None, exit_zero: bool
) -> None:
    """Render the certificate in FOLDER again.

    The exit status is that of its verdict; 0 for a violation that is waived in pyproject.toml.

    \b
    sinkproof report .sinkproof/latest                                    as `certify` has printed it
    sinkproof report .sinkproof/latest --format sarif > sinkproof.sarif   for a code scanner
    sinkproof report .sinkproof/latest --format badge > badge.svg         for a README
    sinkproof report .sinkproof/latest --against .sinkproof/main          what is new, still there, gone
    """
    from sinkproof.certifier.waivers import WaiverCheck, waivers_of

    if against is not None and kind not in BESIDE_AN_EARLIER:
        raise click.UsageError(f"--against: only for --format {', '.join(BESIDE_AN_EARLIER)}")
    check = WaiverCheck(document=load(folder), waivers=waivers_of(Path.cwd()), today=utc_now().date())
    click.echo(
        _renderer(kind, check, old_days=old_days, against=against)(check.document),
        nl=kind not in ("sarif", "badge", "badge-json", "github"),
    )
    for line in check.lines():
        click.echo(line, err=kind not in FOR_PERSONS)
    if kind == "github" and summary is not None:
        _add_summary(check, summary)
    sys.exit(0 if exit_zero else check.exit_status)


def _renderer(
    kind: str, check: WaiverCheck, *, old_days: int, against: Path | None
) -> Callable[[Mapping[str, Any]], str]:
    from sinkproof.reports import junit, markdown, page, terminal
    from sinkproof.reports.ci import badge, github_annotations, sarif
    from sinkproof.reports.ci.since_earlier import Earlier

    earlier = None if against is None else Earlier(load(against))
    now, color = utc_now(), sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    renderers: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "text": partial(
            terminal.render, width=shutil.get_terminal_size((120, 24)).columns, color=color, earlier=earlier
        ),
        "markdown": partial(markdown.render, earlier=earlier),
        "html": partial(page.render, earlier=earlier),
        "junit": junit.render,
        "sarif": partial(sarif.render, waived=check.reasons),
        "github": partial(github_annotations.render, waived=check.reasons),
        "badge": partial(badge.render, now=now, old_days=old_days),
        "badge-json": partial(badge.endpoint, now=now, old_days=old_days),
    }
    return renderers[kind]


def _add_summary(check: WaiverCheck, path: Path) -> None:
    from sinkproof.reports.ci.github_annotations import SUMMARY_BYTES_MOST, summary

    next_step = "Name another file with --summary"
    with write_errors(f"cannot write the summary {path}", next_step=next_step), path.open("ab") as file:
        room = SUMMARY_BYTES_MOST - file.tell()
        file.write(summary(check.document, waivers=check.lines(), room=room).encode())
